//! Tests of volumes: the disk against a model, crashes at every point, damage, the rules of BURST and
//! their mutants, and the NBD server.

mod anything;
mod at_once;
mod batch;
mod burst;
mod checkpointer;
mod crash;
mod damage;
mod encrypted;
mod layers;
mod limits;
mod local;
mod model;
mod mutants;
mod nbd;
mod nbd_clients;
mod partial;
mod random_input;
mod reuse;
mod space;
mod support;

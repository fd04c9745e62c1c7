//! Tests of volumes: the disk against a model, crashes at every point, damage, and the rules of
//! BURST and their mutants.

mod burst;
mod crash;
mod damage;
mod limits;
mod local;
mod model;
mod mutants;
mod support;

\set w random(1, :warehouses)
\set d random(1, 10)
\set c (random(0, 1023) | random(1, :customers)) % :customers + 1
\set count random(5, 15)
\set drawn random(1, 2000000000)
select enter_order(:w, :d, :c, :count, :drawn, :items);

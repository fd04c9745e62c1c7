\set w random(1, :warehouses)
\set d random(1, 10)
\set c (random(0, 1023) | random(1, :customers)) % :customers + 1
select * from orders join order_line on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id where o_w_id = :w and o_d_id = :d and o_c_id = :c order by o_id desc limit 15;

\set w random(1, :warehouses)
\set carrier random(1, 10)
begin;
create temporary table due on commit drop as select no_d_id as d, min(no_o_id) as o from new_order where no_w_id = :w group by no_d_id;
delete from new_order using due where no_w_id = :w and no_d_id = d and no_o_id = o;
update orders set o_carrier_id = :carrier from due where o_w_id = :w and o_d_id = d and o_id = o;
update order_line set ol_delivery = o from due where ol_w_id = :w and ol_d_id = d and ol_o_id = o;
update customer set c_balance = c_balance + amount, c_delivery_cnt = c_delivery_cnt + 1
    from (select o_d_id, o_c_id, sum(ol_amount) as amount from due join orders on o_w_id = :w and o_d_id = d and o_id = o join order_line on ol_w_id = :w and ol_d_id = d and ol_o_id = o group by o_d_id, o_c_id) delivered
    where c_w_id = :w and c_d_id = o_d_id and c_id = o_c_id;
commit;

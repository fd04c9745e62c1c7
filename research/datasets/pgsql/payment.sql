\set w random(1, :warehouses)
\set d random(1, 10)
\set c (random(0, 1023) | random(1, :customers)) % :customers + 1
\set amount random(100, 500000)
begin;
update warehouse set w_ytd = w_ytd + :amount where w_id = :w;
update district set d_ytd = d_ytd + :amount where d_w_id = :w and d_id = :d;
update customer set c_balance = c_balance - :amount, c_ytd_payment = c_ytd_payment + :amount, c_payment_cnt = c_payment_cnt + 1 where c_w_id = :w and c_d_id = :d and c_id = :c;
insert into history select :c, :d, :w, :d, :w, d_next_o_id, :amount, text_of(:amount || '/' || :c, 18) from district where d_w_id = :w and d_id = :d;
commit;

-- The tables of TPC-C and their rows, all from one seed; psql variables: warehouses, items, customers (of a district), seed.
begin;
create table warehouse (w_id int primary key, w_name text, w_street text, w_city text, w_tax int, w_ytd bigint);
create table district (d_w_id int, d_id int, d_name text, d_street text, d_tax int, d_ytd bigint, d_next_o_id int, primary key (d_w_id, d_id));
create table customer (c_w_id int, c_d_id int, c_id int, c_first text, c_last text, c_street text, c_city text, c_phone text, c_credit text,
    c_discount int, c_balance bigint, c_ytd_payment bigint, c_payment_cnt int, c_delivery_cnt int, c_data text, primary key (c_w_id, c_d_id, c_id));
create table history (h_c_id int, h_c_d_id int, h_c_w_id int, h_d_id int, h_w_id int, h_at int, h_amount int, h_data text);
create table orders (o_w_id int, o_d_id int, o_id int, o_c_id int, o_entry int, o_carrier_id int, o_ol_cnt int, primary key (o_w_id, o_d_id, o_id));
create table new_order (no_w_id int, no_d_id int, no_o_id int, primary key (no_w_id, no_d_id, no_o_id));
create table order_line (ol_w_id int, ol_d_id int, ol_o_id int, ol_number int, ol_i_id int, ol_quantity int, ol_amount int, ol_delivery int, ol_dist_info text,
    primary key (ol_w_id, ol_d_id, ol_o_id, ol_number));
create table item (i_id int primary key, i_im_id int, i_name text, i_price int, i_data text);
create table stock (s_w_id int, s_i_id int, s_quantity int, s_dist text[], s_ytd int, s_order_cnt int, s_remote_cnt int, s_data text, primary key (s_w_id, s_i_id));

-- A text of about `size` letters that follows from a key; what two keys give has nothing in common.
create function text_of(key text, size int) returns text language sql immutable as $$
    select substr(string_agg(translate(md5(key || '/' || part), '0123456789', 'ghijklmnop'), ' ' order by part), 1, size) from generate_series(0, size / 33) part $$;
-- A number from `lowest` to `highest` that follows from a key.
create function number_of(key text, lowest int, highest int) returns int language sql immutable as $$
    select lowest + (('x' || substr(md5(key), 1, 8))::bit(32)::bigint % (highest - lowest + 1))::int $$;

insert into warehouse select w, text_of(:seed || 'w' || w, 8), text_of(:seed || 'ws' || w, 20), text_of(:seed || 'wc' || w, 12), number_of(:seed || 'wt' || w, 0, 2000), 30000000 from generate_series(1, :warehouses) w;
insert into district select w, d, text_of(:seed || 'd' || w || '.' || d, 8), text_of(:seed || 'ds' || w || '.' || d, 20), number_of(:seed || 'dt' || w || '.' || d, 0, 2000), 3000000, :customers + 1
    from generate_series(1, :warehouses) w, generate_series(1, 10) d order by w, d;
insert into customer select w, d, c, text_of(k || 'f', 12), 'NAME' || number_of(k || 'l', 0, 999), text_of(k || 's', 24), text_of(k || 'c', 14), number_of(k || 'p', 1, 999999999)::text, 'GC',
    number_of(k || 'x', 0, 5000), -1000, 1000, 1, 0, text_of(k || 'd', number_of(k || 'n', 300, 500))
    from generate_series(1, :warehouses) w, generate_series(1, 10) d, generate_series(1, :customers) c, lateral (select :seed || 'c' || w || '.' || d || '.' || c as k) key order by w, d, c;
insert into history select c_id, c_d_id, c_w_id, c_d_id, c_w_id, 0, 1000, text_of(:seed || 'h' || c_w_id || '.' || c_d_id || '.' || c_id, 18) from customer order by c_w_id, c_d_id, c_id;
insert into item select i, number_of(:seed || 'im' || i, 1, 10000), text_of(:seed || 'i' || i, 20), number_of(:seed || 'ip' || i, 100, 10000), text_of(:seed || 'id' || i, number_of(:seed || 'in' || i, 26, 50))
    from generate_series(1, :items) i;
insert into stock select w, i, number_of(k || 'q', 10, 100), array(select text_of(k || d, 24) from generate_series(1, 10) d order by d), 0, 0, 0, text_of(k || 'd', number_of(k || 'n', 26, 50))
    from generate_series(1, :warehouses) w, generate_series(1, :items) i, lateral (select :seed || 's' || w || '.' || i as k) key order by w, i;
insert into orders select w, d, o, number_of(k || 'c', 1, :customers), 0, case when o <= :customers * 7 / 10 then number_of(k || 'a', 1, 10) end, number_of(k || 'n', 5, 15)
    from generate_series(1, :warehouses) w, generate_series(1, 10) d, generate_series(1, :customers) o, lateral (select :seed || 'o' || w || '.' || d || '.' || o as k) key order by w, d, o;
insert into new_order select o_w_id, o_d_id, o_id from orders where o_carrier_id is null order by o_w_id, o_d_id, o_id;
insert into order_line select o_w_id, o_d_id, o_id, n, number_of(k || 'i', 1, :items), 5, case when o_carrier_id is null then number_of(k || 'a', 1, 999999) else 0 end, 0, text_of(k || 't', 24)
    from orders, generate_series(1, o_ol_cnt) n, lateral (select :seed || 'l' || o_w_id || '.' || o_d_id || '.' || o_id || '.' || n as k) key order by o_w_id, o_d_id, o_id, n;

-- An order of `count` items, each by its own key of one drawn number: TPC-C 2.4.
create function enter_order(w int, d int, c int, count int, drawn int, items int) returns void language plpgsql as $$
declare o int; i int; quantity int; price int; cost int := 0;
begin
    update district set d_next_o_id = d_next_o_id + 1 where d_w_id = w and d_id = d returning d_next_o_id - 1 into o;
    insert into orders values (w, d, o, c, o, null, count); insert into new_order values (w, d, o);
    for n in 1..count loop
        -- Some items are sold more often: the or of two numbers, as in TPC-C 2.1.6.
        i := (number_of(drawn || 'a' || n, 0, 8191) | number_of(drawn || 'b' || n, 1, items)) % items + 1; quantity := number_of(drawn || 'q' || n, 1, 10);
        select i_price into price from item where i_id = i;
        update stock set s_quantity = case when s_quantity >= quantity + 10 then s_quantity - quantity else s_quantity - quantity + 91 end, s_ytd = s_ytd + quantity, s_order_cnt = s_order_cnt + 1
            where s_w_id = w and s_i_id = i;
        insert into order_line select w, d, o, n, i, quantity, quantity * price, null, s_dist[d] from stock where s_w_id = w and s_i_id = i;
    end loop;
end $$;
commit;

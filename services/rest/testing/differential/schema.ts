/**
 * The schema that both servers expose: columns of every type, relationships, functions and media types of every kind,
 * and few rows. It depends neither on time nor on chance, so two copies of the database give the same responses.
 */

/** SQL for the whole cluster. */
export const roles = `
  CREATE ROLE authenticator LOGIN NOINHERIT; CREATE ROLE anon; CREATE ROLE member; CREATE ROLE guest;
  GRANT anon, member, guest TO authenticator;`

const types = `
  CREATE TYPE api.mood AS ENUM ('glad', 'so so', 'sad');
  CREATE TYPE api.pair AS (x int, y text);
  CREATE DOMAIN api.short AS text CHECK (length(VALUE) < 9);
  CREATE DOMAIN api.code AS int;
  CREATE FUNCTION api.code_json(api.code) RETURNS json LANGUAGE sql IMMUTABLE AS $$ SELECT to_json('C' || $1::int) $$;
  CREATE FUNCTION api.code_of_json(json) RETURNS api.code LANGUAGE sql IMMUTABLE AS $$ SELECT substr($1 #>> '{}', 2)::int::api.code $$;
  CREATE FUNCTION api.code_of_text(text) RETURNS api.code LANGUAGE sql IMMUTABLE AS $$ SELECT substr($1, 2)::int::api.code $$;
  CREATE FUNCTION api.code_text(api.code) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'T' || $1::int $$;
  CREATE CAST (api.code AS json) WITH FUNCTION api.code_json(api.code) AS IMPLICIT;
  CREATE CAST (json AS api.code) WITH FUNCTION api.code_of_json(json) AS IMPLICIT;
  CREATE CAST (text AS api.code) WITH FUNCTION api.code_of_text(text) AS IMPLICIT;
  CREATE CAST (api.code AS text) WITH FUNCTION api.code_text(api.code) AS IMPLICIT;`

const relations = `
  CREATE TABLE api.kinds (
    id int PRIMARY KEY, small smallint, big bigint, number numeric, real real, double float8, flag bool, text text,
    limited varchar(6), padded char(4), key uuid, bytes bytea, date date, time time, stamp timestamp, instant timestamptz,
    span interval, address inet, network cidr, plain json, doc jsonb, numbers int[], words text[], range int4range,
    ranges int4multirange, period tstzrange, search tsvector, mood api.mood, moods api.mood[], short api.short, pair api.pair,
    bits varbit, place point, code api.code, price money, page xml, days daterange, spans int4range[], pairs api.pair[], exact numeric(6,2), mac macaddr,
    stamps timestamptz[]);
  INSERT INTO api.kinds VALUES
    (1, 1, 10000000000, 1.50, 0.5, 0.1, true, 'one', 'abc', 'ab', '00000000-0000-0000-0000-000000000001', '\\x00ff', '2020-01-01',
     '10:00', '2020-01-01 10:00', '2020-01-01 10:00+00', '1 day', '10.0.0.1', '10.0.0.0/8', '{"a": 1, "b": {"c": [1, 2]}}',
     '{"a": 1, "b": {"c": [1, "x"]}, "k y": "v"}', '{1,2,3}', '{a,"b c",NULL}', '[1,5)', '{[1,3),[5,7)}',
     '[2020-01-01 00:00+00,2021-01-01 00:00+00)', 'cat:1 sat:2 mat:3', 'glad', '{glad,sad}', 'short', '(1,a)', '101', '(1,2)', 7,
     1.5, '<a b="c">ü</a>', '[2020-01-01,2020-02-01)', '{"[1,3)","[5,6)"}', '{"(1,a)","(,)"}', 1.25, '08:00:2b:01:02:03', '{2020-01-01 00:00+00,NULL}'),
    (2, -2, -3, 'NaN', 'Infinity', 1e300, false, 'two, "2" (x)', '', 'abcd', '00000000-0000-0000-0000-000000000002', '', '1999-12-31',
     '23:59:59', '1999-12-31 23:59:59', '1999-12-31 23:59:59+02', '-1 mons', '::1', '::/0', '[1, {"a": null}]', '[1, {"a": null}, "s"]',
     '{}', '{}', 'empty', '{}', '(,)', 'dog:1', 'so so', '{}', '', '(,)', '', '(0,0)', 8,
     -1000, 'x', 'empty', '{}', '{}', -9999.99, '00:00:00:00:00:00', '{}'),
    (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
     NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (4, 4, 4, 0.001, 4.25, -0.0, true, 'Früh 😀 %_\\*', 'zz', 'z', '00000000-0000-0000-0000-000000000004', '\\x61', 'infinity', '00:00',
     'infinity', '-infinity', '00:00:00', '10.1.2.3/16', '10.1.0.0/16', '"text"', 'null', '{NULL,4}', '{"{x}","\\\\"}', '[4,)', '{[4,)}',
     NULL, 'fat:1 rat:2', 'sad', '{NULL}', 'x', '(4,"b,c")', '1', NULL, 7,
     0, '', '[2020-01-01,)', '{NULL}', '{NULL}', 0, NULL, '{infinity}');

  CREATE TABLE api.clients (id int PRIMARY KEY, name text NOT NULL, city text, rank int);
  CREATE TABLE api.projects (id int PRIMARY KEY, name text NOT NULL, client_id int REFERENCES api.clients, budget numeric, code api.code, info jsonb);
  CREATE TABLE api.briefs (project_id int PRIMARY KEY REFERENCES api.projects, summary text);
  CREATE TABLE api.people (
    id int PRIMARY KEY, name text NOT NULL, boss_id int REFERENCES api.people, home int UNIQUE REFERENCES api.clients, born date, mood api.mood);
  CREATE TABLE api.assignments (person_id int REFERENCES api.people, project_id int REFERENCES api.projects, hours int, PRIMARY KEY (person_id, project_id));
  CREATE TABLE api.friends (one int REFERENCES api.people, other int REFERENCES api.people, PRIMARY KEY (one, other));
  CREATE TABLE api.messages (
    id int PRIMARY KEY, sender int CONSTRAINT message_sender REFERENCES api.people, receiver int CONSTRAINT message_receiver REFERENCES api.people, text text);
  CREATE TABLE api.courses (school int, number int, title text, PRIMARY KEY (school, number));
  CREATE TABLE api.lessons (id int PRIMARY KEY, school int, number int, topic text, FOREIGN KEY (school, number) REFERENCES api.courses);
  CREATE TABLE api.events (id int, kind text, amount int, client_id int REFERENCES api.clients, PRIMARY KEY (id, kind)) PARTITION BY LIST (kind);
  CREATE TABLE api.events_a PARTITION OF api.events FOR VALUES IN ('a');
  CREATE TABLE api.events_b PARTITION OF api.events FOR VALUES IN ('b');
  CREATE TABLE api."odd name,(x)" ("a b" int PRIMARY KEY, "c.d" text, "e""f" text, "Ünï" int, "g-h" int);
  CREATE TABLE api."Odd Notes" ("Key" int PRIMARY KEY, "client id" int REFERENCES api.clients, "a:b" text, "x->y" jsonb);
  CREATE TABLE api.loose (a int, b text);
  CREATE TABLE api.secrets (id int PRIMARY KEY, owner text, content text);
  CREATE TABLE api.guarded (id int PRIMARY KEY, seen text, hidden text);
  ALTER TABLE api.secrets ENABLE ROW LEVEL SECURITY;
  CREATE POLICY own ON api.secrets USING (owner = current_setting('request.jwt.claims', true)::json ->> 'sub') WITH CHECK (owner <> 'nobody');
  CREATE VIEW api.project_names AS SELECT id, name AS title, client_id FROM api.projects;
  CREATE VIEW api.client_projects AS SELECT c.id AS client, c.name, p.id AS project, p.name AS project_name FROM api.clients c JOIN api.projects p ON p.client_id = c.id;
  CREATE MATERIALIZED VIEW api.project_counts AS SELECT client_id, count(*) AS projects FROM api.projects GROUP BY client_id;

  INSERT INTO api.clients VALUES (1, 'Acme', 'Rome', 2), (2, 'Bolt', NULL, 1), (3, 'Core', 'Oslo', NULL);
  INSERT INTO api.projects VALUES (1, 'Alpha', 1, 10.5, 1, '{"a": 1}'), (2, 'Beta', 1, NULL, 2, NULL), (3, 'Gamma', 2, 7, NULL, '[]'), (4, 'Delta', NULL, 1, 1, '{"a": {"b": 2}}');
  INSERT INTO api.briefs VALUES (1, 'first'), (3, NULL);
  INSERT INTO api.people VALUES (1, 'Ada', NULL, 1, '1815-12-10', 'glad'), (2, 'Bob', 1, NULL, NULL, NULL), (3, 'Cy', 1, 3, '1990-02-03', 'sad'), (4, 'Dee', 2, NULL, '2000-01-01', 'glad');
  INSERT INTO api.assignments VALUES (1, 1, 5), (1, 2, NULL), (2, 1, 3), (3, 4, 8);
  INSERT INTO api.friends VALUES (1, 2), (1, 3), (2, 1);
  INSERT INTO api.messages VALUES (1, 1, 2, 'hi'), (2, 2, 1, NULL), (3, 1, NULL, 'lost');
  INSERT INTO api.courses VALUES (1, 1, 'Logic'), (1, 2, 'Art'), (2, 1, NULL);
  INSERT INTO api.lessons VALUES (1, 1, 1, 'and'), (2, 1, 1, 'or'), (3, 2, 1, NULL), (4, NULL, 1, 'none');
  INSERT INTO api.events VALUES (1, 'a', 1, 1), (2, 'a', 2, NULL), (1, 'b', 3, 1);
  INSERT INTO api."odd name,(x)" VALUES (1, 'x', 'y', 1, 2), (2, NULL, '"', NULL, 3);
  INSERT INTO api."Odd Notes" VALUES (1, 1, 'x', '{"a": 1}'), (2, NULL, NULL, '[1, "b"]'), (3, 1, 'a:b', NULL);
  INSERT INTO api.loose VALUES (1, 'a'), (1, 'a'), (2, NULL);
  INSERT INTO api.secrets VALUES (1, 'ada', 'gold'), (2, 'bob', 'silver');
  INSERT INTO api.guarded VALUES (1, 'open', 'closed');
  REFRESH MATERIALIZED VIEW api.project_counts;`

const written = `
  CREATE TABLE api.notes (
    id int GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, title text NOT NULL DEFAULT 'untitled', body text, pages int DEFAULT 1 CHECK (pages > 0),
    twice int GENERATED ALWAYS AS (pages * 2) STORED, mood api.mood DEFAULT 'glad', tags text[] DEFAULT '{}', doc jsonb, code api.code DEFAULT 5,
    client_id int REFERENCES api.clients, UNIQUE (title));
  INSERT INTO api.notes (id, title, body, pages, client_id) VALUES (1, 'first', 'text', 3, 1), (2, 'second', NULL, 1, 2), (3, 'third', 'more', NULL, NULL);
  CREATE TABLE api.keyed (a int, b text, value text, PRIMARY KEY (a, b));
  INSERT INTO api.keyed VALUES (1, 'x', 'one'), (1, 'y', 'two'), (2, 'x', NULL);
  CREATE TABLE api.always (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text);
  INSERT INTO api.always (name) VALUES ('a'), ('b');
  CREATE TABLE api.picky (id int PRIMARY KEY, name text);
  INSERT INTO api.picky VALUES (1, 'a'), (2, 'b');
  CREATE FUNCTION api.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    CASE NEW.name
      WHEN 'raise' THEN RAISE 'refused' USING DETAIL = 'a detail', HINT = 'a hint';
      WHEN 'status' THEN RAISE SQLSTATE 'PT418' USING MESSAGE = 'a teapot';
      WHEN 'skip' THEN RETURN NULL;
      WHEN 'header' THEN PERFORM set_config('response.headers', '[{"X-Trigger": "yes"}]', true); PERFORM set_config('response.status', '202', true);
      ELSE NULL;
    END CASE;
    RETURN NEW; END $$;
  CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON api.picky FOR EACH ROW EXECUTE FUNCTION api.refuse();
  CREATE VIEW api.note_titles AS SELECT id, title, pages FROM api.notes;
  CREATE VIEW api.long_notes AS SELECT id, title, pages FROM api.notes WHERE pages > 2 WITH CHECK OPTION;
  CREATE VIEW api.desk AS SELECT DISTINCT id, title FROM api.notes ORDER BY id;
  CREATE FUNCTION api.write_desk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    CASE TG_OP
      WHEN 'INSERT' THEN INSERT INTO api.notes (id, title) VALUES (coalesce(NEW.id, 90), NEW.title) RETURNING id, title INTO NEW;
      WHEN 'UPDATE' THEN UPDATE api.notes SET title = NEW.title || '!' WHERE id = OLD.id RETURNING id, title INTO NEW;
      ELSE DELETE FROM api.notes WHERE id = OLD.id; RETURN OLD;
    END CASE;
    RETURN NEW; END $$;
  CREATE TRIGGER write INSTEAD OF INSERT OR UPDATE OR DELETE ON api.desk FOR EACH ROW EXECUTE FUNCTION api.write_desk();
  CREATE VIEW api.fixed AS SELECT id, upper(name) AS name FROM api.clients GROUP BY id;`

const functions = `
  CREATE FUNCTION api.add(a int, b int DEFAULT 1) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT a + b';
  CREATE FUNCTION api.greet(name text, mood api.mood DEFAULT 'glad') RETURNS text LANGUAGE sql STABLE AS $$ SELECT 'Hello ' || name || ' ' || mood $$;
  CREATE FUNCTION api.numbers(n int) RETURNS SETOF int LANGUAGE sql STABLE ROWS 5 AS 'SELECT generate_series(1, n)';
  CREATE FUNCTION api.texts() RETURNS SETOF text LANGUAGE sql STABLE AS $$ VALUES ('b'), ('a'), (NULL), ('c') $$;
  CREATE FUNCTION api.all_projects() RETURNS SETOF api.projects LANGUAGE sql STABLE AS 'SELECT * FROM api.projects ORDER BY id';
  CREATE FUNCTION api.projects_over(bound numeric) RETURNS SETOF api.projects LANGUAGE sql STABLE AS 'SELECT * FROM api.projects WHERE budget > bound ORDER BY id';
  CREATE FUNCTION api.one_project(id int) RETURNS api.projects LANGUAGE sql STABLE AS 'SELECT * FROM api.projects p WHERE p.id = one_project.id';
  CREATE FUNCTION api.all_clients() RETURNS SETOF api.clients LANGUAGE sql VOLATILE AS 'SELECT * FROM api.clients ORDER BY id';
  CREATE FUNCTION api.table_of(n int DEFAULT 2) RETURNS TABLE (id int, label text) LANGUAGE sql STABLE AS $$ SELECT i, 'row ' || i FROM generate_series(1, n) i $$;
  CREATE FUNCTION api.swap(INOUT x int, INOUT y text) LANGUAGE sql IMMUTABLE AS $$ SELECT x + 1, y || '!' $$;
  CREATE FUNCTION api.one_out(OUT x int) LANGUAGE sql IMMUTABLE AS 'SELECT 7';
  CREATE FUNCTION api.several(OUT x int, OUT y text, OUT z json) LANGUAGE sql IMMUTABLE AS $$ SELECT 1, 'a', '{"k": null}'::json $$;
  CREATE FUNCTION api.some_pairs() RETURNS SETOF api.pair LANGUAGE sql STABLE AS $$ VALUES (1, 'a'), (2, NULL) $$;
  CREATE FUNCTION api.one_pair() RETURNS api.pair LANGUAGE sql STABLE AS $$ SELECT (3, 'c')::api.pair $$;
  CREATE FUNCTION api.joined(VARIADIC list text[]) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT array_to_string(list, '-', '*') $$;
  CREATE FUNCTION api.counted(label text, VARIADIC list int[] DEFAULT '{}') RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT label || coalesce(array_length(list, 1), 0) $$;
  CREATE FUNCTION api.over(a int) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'int' $$;
  CREATE FUNCTION api.over(a int, b int) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'two' $$;
  CREATE FUNCTION api.over(c text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'text' $$;
  CREATE FUNCTION api.unclear(a int) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'int' $$;
  CREATE FUNCTION api.unclear(a text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'text' $$;
  CREATE FUNCTION api.nothing() RETURNS void LANGUAGE sql AS '';
  CREATE FUNCTION api.nothing_of(a int) RETURNS void LANGUAGE sql IMMUTABLE AS '';
  CREATE FUNCTION api.json_body(json) RETURNS json LANGUAGE sql IMMUTABLE AS 'SELECT $1';
  CREATE FUNCTION api.jsonb_body(jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS 'SELECT $1';
  CREATE FUNCTION api.text_body(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT $1';
  CREATE FUNCTION api.bytes_body(bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS 'SELECT $1';
  CREATE FUNCTION api.xml_body(xml) RETURNS xml LANGUAGE sql IMMUTABLE AS 'SELECT $1';
  CREATE FUNCTION api.set_of_record() RETURNS SETOF record LANGUAGE sql STABLE AS $$ VALUES (1, 'x'::text), (2, NULL) $$;
  CREATE FUNCTION api.no_names(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1';
  CREATE FUNCTION api.mixed_body(json) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'unnamed' $$;
  CREATE FUNCTION api.mixed_body(a int) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'named' $$;
  CREATE FUNCTION api.echo(doc json DEFAULT '{}', list int[] DEFAULT '{}', at date DEFAULT '2020-01-01', "Odd Name" text DEFAULT NULL) RETURNS json LANGUAGE sql IMMUTABLE AS
    $$ SELECT json_build_object('doc', doc, 'list', list, 'at', at, 'odd', "Odd Name") $$;
  CREATE FUNCTION api.some_json() RETURNS json LANGUAGE sql IMMUTABLE AS $$ SELECT '{"a": null, "b": [1]}'::json $$;
  CREATE FUNCTION api.many_json() RETURNS SETOF json LANGUAGE sql IMMUTABLE AS $$ VALUES ('{"a": 1}'::json), ('[2]'), ('null') $$;
  CREATE FUNCTION api.null_text() RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT NULL::text';
  CREATE FUNCTION api.an_array() RETURNS int[] LANGUAGE sql IMMUTABLE AS $$ SELECT '{1,2}'::int[] $$;
  CREATE FUNCTION api.a_code() RETURNS api.code LANGUAGE sql IMMUTABLE AS 'SELECT 9::api.code';
  CREATE FUNCTION api.a_record() RETURNS record LANGUAGE sql IMMUTABLE AS $$ SELECT 1, 'x'::text $$;
  CREATE FUNCTION api.claims() RETURNS json LANGUAGE sql STABLE AS $$ SELECT current_setting('request.jwt.claims', true)::json $$;
  CREATE FUNCTION api.told(name text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN name IN ('headers', 'cookies', 'jwt.claims') THEN nullif(current_setting('request.' || name, true), '')::jsonb::text
      ELSE current_setting('request.' || name, true) END $$;
  CREATE FUNCTION api.header(name text) RETURNS text LANGUAGE sql STABLE AS $$ SELECT current_setting('request.headers', true)::json ->> name $$;
  CREATE FUNCTION api.whoami() RETURNS text LANGUAGE sql STABLE AS $$ SELECT current_user::text $$;
  CREATE FUNCTION api.settings(names text[]) RETURNS json LANGUAGE sql STABLE AS $$ SELECT json_object_agg(name, current_setting(name, true)) FROM unnest(names) AS name $$;
  CREATE FUNCTION api.respond(headers text DEFAULT NULL, status text DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
    PERFORM set_config('response.headers', headers, true); PERFORM set_config('response.status', status, true); RETURN 'told'; END $$;
  CREATE FUNCTION api.fail(state text, message text DEFAULT 'failed', detail text DEFAULT '', hint text DEFAULT '') RETURNS void LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION USING ERRCODE = state, MESSAGE = message, DETAIL = detail, HINT = hint; END $$;
  CREATE FUNCTION api.moods(list api.mood[] DEFAULT '{glad,sad}') RETURNS SETOF api.mood LANGUAGE sql STABLE AS 'SELECT unnest(list)';
  CREATE FUNCTION api.pairs_of(list api.pair[]) RETURNS api.pair[] LANGUAGE sql IMMUTABLE AS 'SELECT list';
  CREATE FUNCTION api.range_of(a int, b int) RETURNS int4range LANGUAGE sql IMMUTABLE AS 'SELECT int4range(a, b)';
  CREATE FUNCTION api.rows_of(prefix text) RETURNS SETOF api.client_projects LANGUAGE sql STABLE AS $$ SELECT * FROM api.client_projects WHERE name LIKE prefix || '%' ORDER BY client, project $$;
  CREATE FUNCTION api.optional(a int DEFAULT 1, b text DEFAULT 'x') RETURNS json LANGUAGE sql IMMUTABLE AS $$ SELECT json_build_object('a', a, 'b', b) $$;
  CREATE FUNCTION api.with_row(client api.clients) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT client.id || ' ' || client.name $$;
  CREATE FUNCTION api.null_row() RETURNS api.clients LANGUAGE sql STABLE AS 'SELECT NULL::api.clients';
  CREATE FUNCTION api.no_rows() RETURNS SETOF api.clients LANGUAGE sql STABLE ROWS 1 AS 'SELECT * FROM api.clients WHERE false';
  CREATE FUNCTION api.json_args(a jsonb, b json DEFAULT 'null', c text[] DEFAULT NULL) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$ SELECT jsonb_build_array(a, b, c) $$;
  CREATE FUNCTION api."Odd Func"("Näme" int DEFAULT 1, "a-b" text DEFAULT NULL) RETURNS TABLE ("Ö" int, "a b" text) LANGUAGE sql STABLE AS $$ VALUES ("Näme", "a-b"), (0, 'zero') $$;
  CREATE FUNCTION api.note_it(title text) RETURNS api.notes LANGUAGE sql VOLATILE AS 'INSERT INTO api.notes (title) VALUES (title) RETURNING *';
  CREATE FUNCTION api.delete_notes() RETURNS SETOF api.notes LANGUAGE sql VOLATILE AS 'DELETE FROM api.notes RETURNING *';
  CREATE FUNCTION api.forbidden() RETURNS int LANGUAGE sql AS 'SELECT 1';
  REVOKE EXECUTE ON FUNCTION api.forbidden() FROM PUBLIC;

  CREATE FUNCTION api.label(api.clients) RETURNS text LANGUAGE sql STABLE AS $$ SELECT $1.name || '/' || coalesce($1.city, '-') $$;
  CREATE FUNCTION api.label(api.projects) RETURNS text LANGUAGE sql STABLE AS $$ SELECT '#' || $1.id $$;
  CREATE FUNCTION api.rich_projects(api.clients) RETURNS SETOF api.projects LANGUAGE sql STABLE AS 'SELECT * FROM api.projects WHERE client_id = $1.id AND budget > 5';
  CREATE FUNCTION api.payer(api.projects) RETURNS SETOF api.clients LANGUAGE sql STABLE ROWS 1 AS 'SELECT * FROM api.clients WHERE id = $1.client_id';
  CREATE FUNCTION api.teller(api.messages) RETURNS SETOF api.people LANGUAGE sql STABLE ROWS 1 AS 'SELECT * FROM api.people WHERE id = $1.sender';`

const media = `
  CREATE DOMAIN "text/html" AS text; CREATE DOMAIN "text/plain" AS text; CREATE DOMAIN "application/octet-stream" AS bytea;
  CREATE DOMAIN "application/vnd.list+json" AS json; CREATE DOMAIN "*/*" AS bytea;
  CREATE FUNCTION api.page() RETURNS "text/html" LANGUAGE sql IMMUTABLE AS $$ SELECT '<p>page</p>'::"text/html" $$;
  CREATE FUNCTION api.download() RETURNS "application/octet-stream" LANGUAGE sql IMMUTABLE AS $$ SELECT '\\x0102'::"application/octet-stream" $$;
  CREATE FUNCTION api.anything() RETURNS "*/*" LANGUAGE plpgsql AS $$ BEGIN
    PERFORM set_config('response.headers', '[{"Content-Type": "app/chosen"}]', true); RETURN 'any'::bytea; END $$;
  CREATE FUNCTION api.client_line(state text, client api.clients) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT state || '<li>' || client.name || '</li>' $$;
  CREATE FUNCTION api.client_html(state text) RETURNS "text/html" LANGUAGE sql IMMUTABLE AS $$ SELECT ('<ul>' || state || '</ul>')::"text/html" $$;
  CREATE AGGREGATE api.clients_html(api.clients) (INITCOND = '', STYPE = text, SFUNC = api.client_line, FINALFUNC = api.client_html);
  CREATE FUNCTION api.list_step(state json, item anyelement) RETURNS json LANGUAGE sql STABLE AS $$ SELECT (coalesce(state, '[]')::jsonb || to_jsonb(item))::json $$;
  CREATE FUNCTION api.list_end(state json) RETURNS "application/vnd.list+json" LANGUAGE sql IMMUTABLE AS $$ SELECT json_build_object('list', state)::"application/vnd.list+json" $$;
  CREATE AGGREGATE api.list_of(anyelement) (STYPE = json, SFUNC = api.list_step, FINALFUNC = api.list_end);`

/** SQL for each copy of the database. */
export const schema = `
  CREATE SCHEMA api; CREATE SCHEMA "склад";
  SET search_path = api, public;
  ${types} ${relations} ${written} ${functions} ${media}
  CREATE TABLE "склад"."дверь" (id int PRIMARY KEY, "ширина" int, client_id int REFERENCES api.clients);
  INSERT INTO "склад"."дверь" VALUES (1, 80, 1), (2, NULL, NULL);
  CREATE FUNCTION "склад".width() RETURNS int LANGUAGE sql STABLE AS 'SELECT 80';
  -- What a rollback does not take back.
  CREATE FUNCTION public.before() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
    IF current_setting('transaction_read_only') = 'off' THEN
      PERFORM setval('api.notes_id_seq', 10, false), setval('api.always_id_seq', 10, false);
    END IF; END $$;
  GRANT USAGE ON SCHEMA api, "склад" TO anon, member, guest;
  GRANT ALL ON ALL TABLES IN SCHEMA api, "склад" TO anon, member;
  GRANT ALL ON ALL SEQUENCES IN SCHEMA api TO anon, member;
  GRANT SELECT ON api.clients, api.projects TO guest;
  GRANT SELECT (id, seen), INSERT (id, seen), UPDATE (seen) ON api.guarded TO guest;
  REVOKE ALL ON api.messages FROM member;
  ANALYZE;`

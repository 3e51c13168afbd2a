/**
 * A load that can be verified, modelled on pgbench. Writers move money between accounts, and each writer counts its
 * steps in two tables. A copy is consistent if the total is unchanged and both tables have every step.
 */
import type pg from 'pg'

export const accounts = 200
export const balance = 100
export const writerCount = 4

export const ledgerSchema = `
  CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL);
  INSERT INTO account SELECT n, ${balance} FROM generate_series(1, ${accounts}) n;
  CREATE TABLE step (writer int PRIMARY KEY, n int NOT NULL);
  CREATE TABLE trace (writer int, n int, padding text, PRIMARY KEY (writer, n));
  INSERT INTO step SELECT n, 0 FROM generate_series(0, ${writerCount - 1}) n;`

/** Commits the n-th step of a writer. `padding`: its record has this many times 32 bytes. */
export async function transfer(client: pg.Client, writer: number, n: number, padding: number): Promise<void> {
  const [from, to] = [1 + Math.floor(Math.random() * accounts), 1 + Math.floor(Math.random() * accounts)]
  const [low, high] = from < to ? [from, to] : [to, from]
  await client.query('BEGIN')
  await client.query('SELECT 1 FROM account WHERE id IN ($1, $2) ORDER BY id FOR UPDATE', [low, high])
  await client.query('UPDATE account SET balance = balance - 1 WHERE id = $1', [from])
  await client.query('UPDATE account SET balance = balance + 1 WHERE id = $1', [to])
  await client.query('UPDATE step SET n = $2 WHERE writer = $1', [writer, n])
  await client.query('INSERT INTO trace VALUES ($1, $2, repeat(md5(random()::text), $3))', [writer, n, padding])
  await client.query('COMMIT')
}

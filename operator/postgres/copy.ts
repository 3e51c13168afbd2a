/**
 * What a copy of a database must be rid of before anything but the operator may reach it: its source's replication slots,
 * which would keep WAL for nobody, and its source's subscriptions, which are still that one's at their publishers. Nothing
 * here asks a publisher for anything, nor lets Postgres ask one. How it is opened: instance/copy.ts.
 */
import { escapeIdentifier, escapeLiteral } from 'pg'
import { closedSetting, copyDirectory, openedFiles } from '../../instance/copy.ts'

const isClosed = `coalesce(current_setting('${closedSetting}', true), '') = 'yes'`

/**
 * Fails where the copy has been opened: what it has then is its users'. An operator that was frozen before it sent what follows
 * drops nothing of theirs.
 */
export const unlessOpen = `DO $$ BEGIN
  IF NOT (${isClosed}) THEN RAISE EXCEPTION 'the copy has been opened meanwhile' USING ERRCODE = '40001'; END IF;
END $$`

/** Drops every slot of a closed copy; none is in use where nobody is let in. */
export const dropSlots = `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE ${isClosed}`

/** The subscriptions of each database, and the version of the server. */
export const subscriptionsQuery = `
SELECT d.datname AS database, json_agg(s.subname) AS names, current_setting('server_version_num')::int AS version
FROM pg_subscription s JOIN pg_database d ON d.oid = s.subdbid GROUP BY 1`

/**
 * Nobody listens there. Even one that is detached from its slot would ask its publisher to drop the slots by which tables were first
 * copied: those are its source's. (With a password, since who owns it may need one.)
 */
const nowhere = escapeLiteral('host=/dev/null port=1 dbname=none user=none password=none connect_timeout=2')

/** Statements for one transaction inside its database. */
export function dropSubscription(name: string): string[] {
  const subscription = escapeIdentifier(name)
  return [
    `ALTER SUBSCRIPTION ${subscription} DISABLE`,
    `ALTER SUBSCRIPTION ${subscription} CONNECTION ${nowhere}`,
    `ALTER SUBSCRIPTION ${subscription} SET (slot_name = NONE)`,
    `DROP SUBSCRIPTION ${subscription}`,
  ]
}

/** How a server says of itself what is left to do of this: part of the state query, as a JSON value. */
export const copyState = `json_build_object(
  'isClosed', ${isClosed},
  'inherited', (SELECT count(*) FROM pg_subscription) + (SELECT count(*) FROM pg_replication_slots))`

/** Of a copy that nobody has opened; `inherited`: slots and subscriptions that are its source's. */
export type CopyState = { isClosed: boolean; inherited: number }

/**
 * Writes what the closed files of a copy include, the word that it is open last, and has them read. The mounted pg_hba.conf
 * stands beside the mounted pg_ident.conf.
 */
export function openStatements(dataDirectory: string): string[] {
  const file = (name: string) => escapeLiteral(`${dataDirectory}/../${copyDirectory}/${name}`)
  const include = `'include "' || regexp_replace(current_setting('ident_file'), '[^/]*$', 'pg_hba.conf') || '"'`
  return [
    `COPY (SELECT ${include}) TO ${file(openedFiles.hba)}`,
    `COPY (SELECT ${escapeLiteral(`${closedSetting} = 'no'`)}) TO ${file(openedFiles.settings)}`,
    'SELECT pg_reload_conf()',
  ]
}

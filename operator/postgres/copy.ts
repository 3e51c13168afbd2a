/**
 * Removes from a database's copy what must not remain when clients can connect. The source's replication slots would
 * retain WAL without use. The source's subscriptions still belong to the source at their publishers. Nothing here
 * contacts a publisher, or makes Postgres contact one. To open a copy: instance/copy.ts.
 */
import { escapeIdentifier, escapeLiteral } from 'pg'
import { closedSetting, copyDirectory, openedFiles } from '../../instance/copy.ts'

const isClosed = `coalesce(current_setting('${closedSetting}', true), '') = 'yes'`

/**
 * Fails if the copy is open: its slots and subscriptions then belong to its users. So statements that a frozen operator
 * sends late drop nothing of theirs.
 */
export const unlessOpen = `DO $$ BEGIN
  IF NOT (${isClosed}) THEN RAISE EXCEPTION 'the copy has been opened meanwhile' USING ERRCODE = '40001'; END IF;
END $$`

/** Drops every slot of a closed copy. No slot is in use, because no client can connect. */
export const dropSlots = `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE ${isClosed}`

/** The subscriptions of each database, and the version of the server. */
export const subscriptionsQuery = `
SELECT d.datname AS database, json_agg(s.subname) AS names, current_setting('server_version_num')::int AS version
FROM pg_subscription s JOIN pg_database d ON d.oid = s.subdbid GROUP BY 1`

/**
 * An address where no server listens. Otherwise even a subscription without a slot would make its publisher drop the
 * slots of the first table copies, which belong to the source. It contains a password because the subscription's owner
 * may need one.
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

/** A part of the state query, as a JSON value: what must still be removed from a copy. */
export const copyState = `json_build_object(
  'isClosed', ${isClosed},
  'inherited', (SELECT count(*) FROM pg_subscription) + (SELECT count(*) FROM pg_replication_slots))`

/** `isClosed`: the copy is not open yet. `inherited`: how many slots and subscriptions of the source it has. */
export type CopyState = { isClosed: boolean; inherited: number }

/**
 * Writes the files that a closed copy's configuration includes, and reloads. The setting that the copy is open is
 * written last. The mounted pg_hba.conf is beside the mounted pg_ident.conf.
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

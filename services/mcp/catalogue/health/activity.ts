/** Current activity: connections, long transactions, lock waits, the cache, and standbys. */
import { cellsOf } from '../../../postgres/cells.ts'
import { type Check, count, duration, levelAbove, mostFindings, percent, plural, size, worst } from './check.ts'

const connectionSql = `
select pg_catalog.sum(numbackends) as used, pg_catalog.current_setting('max_connections')::int - pg_catalog.current_setting('superuser_reserved_connections')::int as most,
  (select pg_catalog.count(*) from pg_catalog.pg_stat_activity where state = 'idle') as idle,
  (select pg_catalog.count(*) from pg_catalog.pg_stat_activity where state like 'idle in transaction%') as in_transaction
from pg_catalog.pg_stat_database`

export const connectionCheck: Check = {
  name: 'connections',
  statements: [{ text: connectionSql }],
  evaluate([rows]) {
    const [cells] = rows ? cellsOf(rows) : []
    if (cells === undefined) throw new Error('the check expects one statement with one row')
    const [used, most] = [cells.number('used'), cells.number('most')]
    const level = levelAbove(used / most, 0.75, 0.9)
    return {
      level,
      summary: `${count(used)} of ${count(most)} used (${percent(used, most)}), of those seen ${count(cells.number('idle'))} idle, ${count(cells.number('in_transaction'))} idle in transaction (warn at 75 %, critical at 90 %)`,
      findings: level === 'ok' ? [] : ['put a pooler in front, or lower the pools of the applications'],
    }
  },
}

const leastBlocks = 10_000

const cacheSql = `
select pg_catalog.sum(blks_hit) as hits, pg_catalog.sum(blks_read) as reads from pg_catalog.pg_stat_database where datname = current_database()`

export const cacheCheck: Check = {
  name: 'cache',
  statements: [{ text: cacheSql }],
  evaluate([rows]) {
    const [cells] = rows ? cellsOf(rows) : []
    if (cells === undefined) throw new Error('the check expects one statement with one row')
    const [hits, reads] = [cells.number('hits'), cells.number('reads')]
    const all = hits + reads
    const isLow = all >= leastBlocks && hits < 0.9 * all
    return {
      level: isLow ? 'warning' : 'ok',
      summary: `${percent(hits, all)} of ${count(all)} blocks came from shared_buffers (warn below 90 %, from ${count(leastBlocks)} blocks)`,
      findings: isLow ? ['raise shared_buffers, or find what reads so much by top_queries with order_by blocks'] : [],
    }
  },
}

const longest = { warning: 300, critical: 3_600 }

const transactionSql = `
select pid, coalesce(usename, '') as role, coalesce(state, '') as state, extract(epoch from pg_catalog.now() - xact_start)::bigint as seconds
from pg_catalog.pg_stat_activity
where xact_start < pg_catalog.now() - interval '${longest.warning} seconds' and pid <> pg_backend_pid() and backend_type = 'client backend'
order by xact_start limit ${mostFindings}`

const preparedSql = `
select gid, extract(epoch from pg_catalog.now() - prepared)::bigint as seconds from pg_catalog.pg_prepared_xacts
where prepared < pg_catalog.now() - interval '${longest.warning} seconds' order by prepared limit ${mostFindings}`

/** Omits waits shorter than one second: they are normal, and Postgres cancels an autovacuum that blocks a session. */
const blockedSql = `
select waiter.pid, pg_catalog.array_to_string(pg_catalog.pg_blocking_pids(waiter.pid), ', ') as blockers, relation.name,
  extract(epoch from pg_catalog.clock_timestamp() - waiter.since)::bigint as seconds
from (
  select pid, pg_catalog.min(waitstart) as since, pg_catalog.min(relation::oid) as relation from pg_catalog.pg_locks where not granted group by pid
) waiter left join lateral (select coalesce(waiter.relation::regclass::text, '') as name) relation on true
where waiter.since < pg_catalog.clock_timestamp() - interval '1 second'
order by waiter.since limit ${mostFindings}`

export const transactionCheck: Check = {
  name: 'transactions',
  statements: [{ text: transactionSql }, { text: preparedSql }, { text: blockedSql }],
  evaluate([transactions, prepared, blocked]) {
    if (!transactions || !prepared || !blocked) throw new Error('the check expects three statements')
    const ages = [...cellsOf(transactions), ...cellsOf(prepared)].map(cells => cells.number('seconds'))
    const waits = cellsOf(blocked).map(cells => cells.number('seconds'))
    return {
      level: worst([
        ...ages.map(seconds => levelAbove(seconds, longest.warning, longest.critical)),
        ...waits.map(seconds => levelAbove(seconds, 10, longest.warning)),
      ]),
      summary: `${plural(ages.length, 'transaction', 'transactions')} open for over 5 min (critical from 1 h), ${plural(waits.length, 'session waits', 'sessions wait')} for a lock (warn from 10 s, critical from 5 min)`,
      findings: [
        ...cellsOf(transactions).map(
          cells =>
            `pid ${cells.text('pid')} (${cells.text('role')}, ${cells.text('state')}): transaction open for ${duration(cells.number('seconds'))}; it keeps vacuum from cleaning up`,
        ),
        ...cellsOf(prepared).map(
          cells => `prepared transaction ${cells.text('gid')}: ${duration(cells.number('seconds'))}`,
        ),
        ...cellsOf(blocked).map(
          cells =>
            `pid ${cells.text('pid')} has waited ${duration(cells.number('seconds'))} for a lock${cells.text('name') === '' ? '' : ` on ${cells.text('name')}`}, held up by pid ${cells.text('blockers')}`,
        ),
      ],
    }
  },
}

const gibibyte = 1_073_741_824
const lagLevel = (bytes: number) => levelAbove(bytes, gibibyte, 10 * gibibyte)

/** The position up to which Postgres has written WAL or, on a standby, has received WAL. */
const positionSql = `case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_receive_lsn() else pg_catalog.pg_current_wal_lsn() end`

const standbySql = `
select coalesce(application_name, '') as name, coalesce(state, '') as state, coalesce(pg_catalog.pg_wal_lsn_diff(${positionSql}, replay_lsn), 0)::bigint as bytes
from pg_catalog.pg_stat_replication order by bytes desc limit ${mostFindings}`

const slotSql = `
select slot_name as name, active, coalesce(wal_status, '') as status, coalesce(pg_catalog.pg_wal_lsn_diff(${positionSql}, restart_lsn), 0)::bigint as bytes
from pg_catalog.pg_replication_slots order by bytes desc limit ${mostFindings}`

const recoverySql = `
select pg_catalog.pg_is_in_recovery() as standby,
  case when pg_catalog.pg_last_wal_receive_lsn() is not distinct from pg_catalog.pg_last_wal_replay_lsn() then 0
    else coalesce(extract(epoch from pg_catalog.now() - pg_catalog.pg_last_xact_replay_timestamp()), 0) end::bigint as seconds`

export const replicationCheck: Check = {
  name: 'replication',
  statements: [{ text: standbySql }, { text: slotSql }, { text: recoverySql }],
  evaluate([standbys, slots, recovery]) {
    if (!standbys || !slots || !recovery) throw new Error('the check expects three statements')
    const followers = cellsOf(standbys).map(cells => ({
      level: lagLevel(cells.number('bytes')),
      text: `standby ${cells.text('name')} (${cells.text('state')}) is ${size(cells.number('bytes'))} behind`,
    }))
    const retained = cellsOf(slots).map(cells => {
      const status = cells.text('status')
      const isIdle = !cells.flag('active')
      return {
        level: worst([lagLevel(cells.number('bytes')), status === 'lost' ? 'critical' : isIdle ? 'warning' : 'ok']),
        text: `slot ${cells.text('name')}${isIdle ? ', which no client reads,' : ''} keeps ${size(cells.number('bytes'))} of WAL${status === '' ? '' : ` (${status})`}${isIdle ? '; drop it if it is not needed' : ''}`,
      }
    })
    const [own] = cellsOf(recovery)
    const behind = own?.number('seconds') ?? 0
    const role = own?.flag('standby')
      ? `a standby, ${duration(behind)} behind`
      : `${plural(followers.length, 'standby', 'standbys')}`
    return {
      level: worst([...followers, ...retained].map(({ level }) => level).concat(levelAbove(behind, 60, 600))),
      summary: `${role}, ${plural(retained.length, 'slot', 'slots')} (lag and kept WAL: warn at 1 GiB, critical at 10 GiB; as a standby: 1 min, 10 min)`,
      findings: [...followers, ...retained].flatMap(({ level, text }) => (level === 'ok' ? [] : [text])),
    }
  },
}

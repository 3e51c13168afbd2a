/** Checks counters that have a maximum: transaction ids and sequences. */

import { cellsOf } from '../../../postgres/cells.ts'
import { ofUsers } from '../relations.ts'
import { type Check, count, levelAbove, mostFindings, percent, worst } from './check.ts'

/** Postgres refuses writes some millions of transactions before this id. */
const lastTransaction = 2_147_483_648
const leastAge = 400_000_000
/** The default of vacuum_failsafe_age. */
const criticalAge = 1_600_000_000

const databaseAgeSql = `
select datname as name, pg_catalog.age(datfrozenxid) as age, mxid_age(datminmxid) as multixacts, pg_catalog.current_setting('autovacuum_freeze_max_age')::bigint as freeze_age
from pg_catalog.pg_database where datallowconn order by greatest(pg_catalog.age(datfrozenxid), mxid_age(datminmxid)) desc limit ${mostFindings}`

const tableAgeSql = `
select pg_catalog.format('%I.%I', namespace.nspname, relation.relname) as name, pg_catalog.age(relation.relfrozenxid) as age
from pg_catalog.pg_class relation join pg_catalog.pg_namespace namespace on namespace.oid = relation.relnamespace
where relation.relkind in ('r', 'm', 't') and relation.relfrozenxid <> '0'
order by pg_catalog.age(relation.relfrozenxid) desc limit 3`

export const wraparoundCheck: Check = {
  name: 'wraparound',
  statements: [{ text: databaseAgeSql }, { text: tableAgeSql }],
  evaluate([databases, tables]) {
    if (!databases || !tables) throw new Error('the check expects two statements')
    const ages = cellsOf(databases).map(cells => ({
      name: cells.text('name'),
      age: Math.max(cells.number('age'), cells.number('multixacts')),
      freezeAge: cells.number('freeze_age'),
    }))
    const warning = Math.max(leastAge, 2 * (ages[0]?.freezeAge ?? 0))
    const level = worst(ages.map(({ age }) => levelAbove(age, Math.min(warning, criticalAge), criticalAge)))
    const oldest = Math.max(0, ...ages.map(({ age }) => age))
    const old = ages.filter(({ age }) => age >= warning)
    return {
      level,
      summary: `oldest transaction id is ${count(oldest)} back, ${percent(oldest, lastTransaction)} of the way (warn at ${count(warning)}, critical at ${count(criticalAge)})`,
      findings:
        level === 'ok'
          ? []
          : [
              ...old.map(({ name, age }) => `database ${name}: ${count(age)}`),
              ...cellsOf(tables).map(
                cells => `${cells.text('name')}: ${count(cells.number('age'))}; VACUUM (FREEZE) it`,
              ),
            ],
    }
  },
}

/**
 * Checks only ascending sequences without CYCLE. Also checks the column that the sequence fills, because its type may
 * be smaller.
 */
const sequenceSql = `
select sequence.name, sequence.last, sequence.highest, sequence.last / sequence.highest as share from (
  select pg_catalog.format('%I.%I', namespace.nspname, class.relname) as name, case when pg_catalog.has_sequence_privilege(class.oid, 'usage, select') then pg_sequence_last_value(class.oid)::numeric end as last,
    least(setting.seqmax, case attribute.atttypid when 'int2'::regtype then 32767 when 'int4'::regtype then 2147483647 else setting.seqmax end)::numeric as highest
  from pg_catalog.pg_sequence setting
    join pg_catalog.pg_class class on class.oid = setting.seqrelid
    join pg_catalog.pg_namespace namespace on namespace.oid = class.relnamespace
    left join pg_catalog.pg_depend owner on owner.classid = 'pg_class'::regclass and owner.objid = class.oid
      and owner.refclassid = 'pg_class'::regclass and owner.deptype in ('a', 'i') and owner.refobjsubid > 0
    left join pg_catalog.pg_attribute attribute on attribute.attrelid = owner.refobjid and attribute.attnum = owner.refobjsubid
  where setting.seqincrement > 0 and not setting.seqcycle and ${ofUsers('namespace')}
) sequence where sequence.last > 0 and sequence.highest > 0 order by share desc limit ${mostFindings}`

export const sequenceCheck: Check = {
  name: 'sequences',
  statements: [{ text: sequenceSql }],
  evaluate([sequences]) {
    if (!sequences) throw new Error('the check expects one statement')
    const all = cellsOf(sequences).map(cells => {
      const [last, highest] = [cells.number('last'), cells.number('highest')]
      return {
        level: levelAbove(last / highest, 0.75, 0.9),
        text: `${cells.text('name')}: ${count(last)} of ${count(highest)} (${percent(last, highest)}); move the column to bigint`,
      }
    })
    const near = all.filter(({ level }) => level !== 'ok')
    return {
      level: worst(all.map(({ level }) => level)),
      summary: `${near.length} near their end (warn at 75 %, critical at 90 %, by the smaller of sequence and column)`,
      findings: near.map(({ text }) => text),
    }
  },
}

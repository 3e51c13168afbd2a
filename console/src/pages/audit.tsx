/** The audit page: write requests of the account, newest first. */
import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useApi } from '../api/accounts.ts'
import type { Schemas } from '../api/client.ts'
import { auditQuery, databasesQuery, type Outcome, outcomes } from '../api/queries.ts'
import { Button } from '../components/button.tsx'
import { Field } from '../components/field.tsx'
import { Ago, Empty, PageTitle, Result } from '../components/state.tsx'
import { actionText, databaseOf, detailText, outcomeOf } from '../lib/audit.ts'
import { texts } from '../texts.ts'

const own = texts.audit

type Database = Pick<Schemas['ManagedDatabase'], 'id' | 'name'>

function Filters({ databases }: { databases: readonly Database[] }) {
  const { database, outcome } = useSearch({ from: '/audit' })
  const navigate = useNavigate()
  const filter = (search: { database?: string | undefined; outcome?: Outcome | undefined }) =>
    navigate({ to: '/audit', search: { database, outcome, ...search }, replace: true })
  // The database of the filter is deleted, or the page has not read it yet.
  const isUnknown = database !== undefined && databases.every(({ id }) => id !== database)
  return (
    <div className="sql-options">
      <Field label={own.database}>
        {attributes => (
          <select
            {...attributes}
            className="input"
            value={database ?? ''}
            onChange={event => filter({ database: event.target.value || undefined })}
          >
            <option value="">{own.everything}</option>
            {isUnknown && <option value={database}>{database}</option>}
            {databases.map(({ id, name }) => (
              <option key={id} value={id}>
                {name}
              </option>
            ))}
          </select>
        )}
      </Field>
      <Field label={own.outcome}>
        {attributes => (
          <select
            {...attributes}
            className="input"
            value={outcome ?? ''}
            onChange={event => filter({ outcome: outcomes.find(one => one === event.target.value) })}
          >
            <option value="">{own.everyOutcome}</option>
            {outcomes.map(one => (
              <option key={one} value={one}>
                {own.outcomes[one]}
              </option>
            ))}
          </select>
        )}
      </Field>
    </div>
  )
}

function Entry({ entry, databases }: { entry: Schemas['AuditEntry']; databases: readonly Database[] }) {
  const database = databaseOf(entry, databases)
  const outcome = outcomeOf(entry)
  const { member } = entry
  const detail = detailText(entry)
  return (
    <tr>
      <td>
        <Ago at={entry.time} />
      </td>
      <td className="wrap" title={entry.address}>
        {member ?? own.unknown}
      </td>
      <td className="statement">
        <span className="wrap" title={`${entry.method} ${entry.path}`}>
          {actionText(entry)}
        </span>
        {detail !== undefined && <p className="quiet">{detail}</p>}
      </td>
      <td className="wrap">
        {database === undefined ? (
          <span className="mono quiet">{entry.subject_id}</span>
        ) : (
          <Link to="/databases/$id" params={{ id: database.id }}>
            {database.name}
          </Link>
        )}
      </td>
      <td className="nowrap">
        <span className={`badge tone-${outcome.tone}`}>{outcome.text}</span>
      </td>
    </tr>
  )
}

function Entries({ entries, databases }: { entries: Schemas['AuditEntry'][]; databases: readonly Database[] }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: keyboard users must be able to scroll it
    <section className="table-frame" tabIndex={0} aria-label={own.list}>
      <table className="table">
        <thead>
          <tr>
            <th scope="col">{own.columns.time}</th>
            <th scope="col">{own.columns.member}</th>
            <th scope="col">{own.columns.action}</th>
            <th scope="col">{own.columns.object}</th>
            <th scope="col">{own.columns.outcome}</th>
          </tr>
        </thead>
        <tbody>
          {entries.map(entry => (
            <Entry key={entry.id} entry={entry} databases={databases} />
          ))}
        </tbody>
      </table>
    </section>
  )
}

export default function Audit() {
  const api = useApi()
  const { database, outcome } = useSearch({ from: '/audit' })
  const query = useInfiniteQuery(auditQuery(api, { database_id: database, outcome }))
  const { data: databases = [] } = useQuery(databasesQuery(api))
  const isFiltered = database !== undefined || outcome !== undefined
  return (
    <div className="page">
      <div className="page-head">
        <div>
          <PageTitle>{own.title}</PageTitle>
          <p className="quiet">{own.what}</p>
        </div>
        <Button onClick={() => query.refetch()} busy={query.isRefetching && own.reading}>
          {own.refresh}
        </Button>
      </div>
      <div className="card">
        <div className="card-body stack">
          <Filters databases={databases} />
          <Result query={query} what={own.title}>
            {({ pages }) => {
              const entries = pages.flatMap(page => page.entries)
              if (entries.length === 0)
                return <Empty title={own.none}>{isFiltered ? own.noneFiltered : own.noneWhat}</Empty>
              return <Entries entries={entries} databases={databases} />
            }}
          </Result>
          {query.hasNextPage && (
            <div>
              <Button onClick={() => query.fetchNextPage()} busy={query.isFetchingNextPage && own.reading}>
                {own.more}
              </Button>
            </div>
          )}
        </div>
      </div>
    </div>
  )
}

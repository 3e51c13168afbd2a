/** The overview: databases with their branches, problems that need attention, and the newest operations. */
import { useQueries, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useWindowVirtualizer } from '@tanstack/react-virtual'
import { useLayoutEffect, useMemo, useRef, useState } from 'react'
import { useApi } from '../api/accounts.ts'
import type { Schemas } from '../api/client.ts'
import { branchesQuery, databasesQuery, tasksQuery } from '../api/queries.ts'
import { BranchLink } from '../components/branch-link.tsx'
import { buttonClass } from '../components/button.tsx'
import { Icon } from '../components/icons.tsx'
import { Ago, Empty, PageTitle, Result, Status } from '../components/state.tsx'
import { TaskList } from '../components/task-list.tsx'
import { attentionOf } from '../lib/attention.ts'
import { bytes } from '../lib/format.ts'
import { filtered, type Row, rowsOf } from '../lib/rows.ts'
import { texts } from '../texts.ts'

type Database = Schemas['ManagedDatabase']

const columns = texts.overview.columns
const rowHeight = 45
const columnCount = 8

function NameCell({ database, isOpen, toggle }: { database: Database; isOpen: boolean; toggle: () => void }) {
  const { id, name, display_name: label } = database
  return (
    <div className="name-cell">
      <button
        type="button"
        className="twist"
        aria-expanded={isOpen}
        aria-label={isOpen ? texts.overview.collapse(name) : texts.overview.expand(name)}
        onClick={toggle}
      >
        <Icon name="chevron" size={14} />
      </button>
      <Link to="/databases/$id" params={{ id }} className="name-link">
        {name}
      </Link>
      {label != null && label !== '' && <span className="quiet clip">{label}</span>}
    </div>
  )
}

function DatabaseRow({ database, ...open }: { database: Database; isOpen: boolean; toggle: () => void }) {
  const { status, size, storage_used: used, region, branch_count: branches = 0, pg_version: version } = database
  return (
    <>
      <th scope="row">
        <NameCell database={database} {...open} />
      </th>
      <td>
        <Status status={status} />
      </td>
      <td className="wide">{size}</td>
      <td className="wide numeric">{used === undefined ? '–' : bytes(used)}</td>
      <td className="wide numeric">{branches}</td>
      <td className="wide">{region}</td>
      <td className="wide numeric">{version ?? '–'}</td>
      <td className="wide">
        <Ago at={database.updated_at} />
      </td>
    </>
  )
}

function BranchRow({ line, mark }: Pick<Extract<Row, { kind: 'branch' }>, 'line' | 'mark'>) {
  const { status, size, region, pg_version: version, updated_at: at } = line.node
  return (
    <>
      <th scope="row">
        <BranchLink branch={line.node} shortId={mark} indent={30 + line.depth * 18} />
      </th>
      <td>
        <Status status={status} />
      </td>
      <td className="wide">{size}</td>
      <td className="wide">–</td>
      <td className="wide">–</td>
      <td className="wide">{region}</td>
      <td className="wide numeric">{version}</td>
      <td className="wide">
        <Ago at={at} />
      </td>
    </>
  )
}

const notes = {
  none: () => texts.overview.noBranches,
  loading: (name: string) => texts.loading(texts.overview.branchesOf(name)),
  failed: () => texts.errors.title,
}

function DatabaseTable({ databases }: { databases: readonly Database[] }) {
  const api = useApi()
  const [open, setOpen] = useState<readonly string[]>([])
  const results = useQueries({ queries: open.map(id => branchesQuery(api, id)) })
  const branches = new Map(
    open.map((id, index) => {
      const result = results[index]
      return [id, result?.data ?? (result?.isError ? 'failed' : 'loading')] as const
    }),
  )
  const rows = rowsOf(databases, branches)
  const frame = useRef<HTMLDivElement>(null)
  const [top, setTop] = useState(0)
  useLayoutEffect(() => setTop((frame.current?.getBoundingClientRect().top ?? 0) + window.scrollY), [])
  const virtual = useWindowVirtualizer({
    count: rows.length,
    estimateSize: () => rowHeight,
    overscan: 12,
    scrollMargin: top,
    getItemKey: index => rows[index]?.key ?? index,
  })
  const shown = virtual.getVirtualItems()
  const before = (shown[0]?.start ?? top) - top
  const after = virtual.getTotalSize() - ((shown.at(-1)?.end ?? top) - top)
  const toggle = (id: string) => setOpen(open.includes(id) ? open.filter(one => one !== id) : [...open, id])
  return (
    <div ref={frame} className="table-frame">
      <table className="table databases" aria-rowcount={rows.length + 1}>
        <caption className="visually-hidden">{texts.overview.databases}</caption>
        <thead>
          <tr aria-rowindex={1}>
            <th scope="col">{columns.name}</th>
            <th scope="col">{columns.state}</th>
            {[columns.size, columns.storage, columns.branches, columns.region, columns.version, columns.changed].map(
              text => (
                <th key={text} scope="col" className="wide">
                  {text}
                </th>
              ),
            )}
          </tr>
        </thead>
        <tbody>
          {before > 0 && <Space height={before} />}
          {shown.map(({ index, key }) => {
            const row = rows[index]
            if (row === undefined) return null
            return (
              <tr key={key} aria-rowindex={index + 2} className={`row-${row.kind}`}>
                {row.kind === 'database' && (
                  <DatabaseRow
                    database={row.database}
                    isOpen={open.includes(row.database.id)}
                    toggle={() => toggle(row.database.id)}
                  />
                )}
                {row.kind === 'branch' && <BranchRow line={row.line} mark={row.mark} />}
                {row.kind === 'note' && (
                  <td colSpan={columnCount} className="quiet row-note">
                    {notes[row.note](row.database.name)}
                  </td>
                )}
              </tr>
            )
          })}
          {after > 0 && <Space height={after} />}
        </tbody>
      </table>
    </div>
  )
}

/** Takes the height of the rows outside the window. These rows are not rendered. */
function Space({ height }: { height: number }) {
  return (
    // biome-ignore lint/a11y/noAriaHiddenOnFocusable: it contains no focusable element
    <tr aria-hidden="true">
      <td colSpan={columnCount} className="space" style={{ height }} />
    </tr>
  )
}

function Attention({ databases }: { databases: readonly Database[] }) {
  const [all, setAll] = useState(false)
  const found = useMemo(() => attentionOf(databases), [databases])
  const shown = all ? found : found.slice(0, 5)
  return (
    <section className="card" aria-labelledby="attention">
      <div className="card-head">
        <h2 id="attention">{texts.overview.attention}</h2>
        {found.length > 0 && <span className="badge badge-plain">{found.length}</span>}
      </div>
      {found.length === 0 && <p className="card-body quiet">{texts.overview.attentionNone}</p>}
      <ul className="lines">
        {shown.map(({ key, tone, text, what, databaseId }) => (
          <li key={key} className="line">
            <span className={`badge tone-${tone}`}>{tone === 'bad' ? texts.attention.bad : texts.attention.note}</span>
            <div className="wrap">
              <Link to="/databases/$id" params={{ id: databaseId }} className="line-link">
                {text}
              </Link>{' '}
              <span className="quiet">{what}</span>
            </div>
          </li>
        ))}
      </ul>
      {found.length > shown.length && (
        <div className="card-end">
          <button type="button" className="button button-plain button-small" onClick={() => setAll(true)}>
            {texts.overview.more(found.length - shown.length)}
          </button>
        </div>
      )}
    </section>
  )
}

const shownOperations = 8

function Operations({ databases }: { databases: readonly Database[] }) {
  const query = useQuery(tasksQuery(useApi()))
  return (
    <section className="card" aria-labelledby="operations">
      <div className="card-head">
        <h2 id="operations">{texts.overview.operations}</h2>
        <Link to="/operations">{texts.overview.all}</Link>
      </div>
      <Result query={query} what={texts.overview.operations}>
        {tasks =>
          tasks.length === 0 ? (
            <p className="card-body quiet">{texts.overview.operationsNone}</p>
          ) : (
            <TaskList tasks={tasks.slice(0, shownOperations)} databases={databases} />
          )
        }
      </Result>
    </section>
  )
}

function Databases({ databases }: { databases: readonly Database[] }) {
  const [typed, setTyped] = useState('')
  const found = useMemo(
    () => filtered(databases, typed).toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    [databases, typed],
  )
  return (
    <section className="card" aria-labelledby="databases">
      <div className="card-head">
        <h2 id="databases">{texts.overview.count(databases.length)}</h2>
        <input
          className="input filter"
          type="search"
          aria-label={texts.overview.filter}
          placeholder={texts.overview.filterPlaceholder}
          value={typed}
          maxLength={100}
          onChange={event => setTyped(event.target.value)}
        />
      </div>
      {found.length === 0 ? (
        <p className="card-body quiet wrap">{texts.overview.noMatch(typed)}</p>
      ) : (
        <DatabaseTable databases={found} />
      )}
    </section>
  )
}

export default function Overview() {
  const query = useQuery(databasesQuery(useApi()))
  return (
    <div className="page">
      <div className="page-head">
        <PageTitle>{texts.overview.title}</PageTitle>
        <Link to="/new" className={buttonClass('primary')}>
          <Icon name="plus" />
          {texts.navigation.create}
        </Link>
      </div>
      <Result query={query} what={texts.overview.databases}>
        {databases =>
          databases.length === 0 ? (
            <div className="card">
              <Empty title={texts.overview.emptyTitle}>{texts.overview.emptyWhat}</Empty>
            </div>
          ) : (
            <div className="overview">
              <div className="overview-side">
                <Attention databases={databases} />
                <Operations databases={databases} />
              </div>
              <Databases databases={databases} />
            </div>
          )
        }
      </Result>
    </div>
  )
}

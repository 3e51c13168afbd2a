/** The page of tables. It stages changes of rows, shows them as SQL, and commits them in one transaction. */
import { useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { useAccount } from '../../api/accounts.ts'
import { tablesQuery } from '../../api/queries.ts'
import { Button, buttonClass } from '../../components/button.tsx'
import { Code } from '../../components/code.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { Field } from '../../components/field.tsx'
import type { RowActions } from '../../components/grid.tsx'
import { RowForm } from '../../components/row-form.tsx'
import { SqlResults } from '../../components/sql-results.tsx'
import { StagedEdits } from '../../components/staged-edits.tsx'
import { Empty, Result } from '../../components/state.tsx'
import { TableChoice } from '../../components/table-choice.tsx'
import { TargetLink } from '../../components/target-tabs.tsx'
import { idOfRow, keyOf } from '../../lib/edits.ts'
import type { SqlResult, Value } from '../../lib/sql.ts'
import { type Staged, useStaged } from '../../lib/staged.ts'
import { type Filter, isEditable, rowsStatement, type Sort, type Table } from '../../lib/tables.ts'
import { type Target, useTarget } from '../../lib/target.ts'
import { useSql } from '../../lib/use-sql.ts'
import { texts } from '../../texts.ts'

const own = texts.tables
const pageRows = 200
const timeoutSeconds = 30

type Shown = { filters: readonly Filter[]; sort: Sort | undefined; offset: number }

/** Removes the last column, which contains the version of each row. */
const withoutVersion = (results: readonly SqlResult[]): SqlResult[] =>
  results.map(({ columns, rows, ...result }) => ({
    ...result,
    columns: columns?.slice(0, -1),
    rows: rows.map(row => row.slice(0, -1)),
  }))

type RowsProps = { target: Target; table: Table; staged: Staged; version: number }

function Rows({ target, table, staged, version }: RowsProps) {
  const [choice, setChoice] = useState<Shown>({ filters: [], sort: undefined, offset: 0 })
  const [edited, setEdited] = useState<{ row: readonly Value[] | undefined }>()
  const { run, start } = useSql(useAccount())
  const statement = rowsStatement(table, { ...choice, limit: pageRows })
  const { text } = statement
  const parameters = statement.parameters.join('\0')
  // biome-ignore lint/correctness/useExhaustiveDependencies: reads again when the statement changes, or after a commit
  useEffect(() => {
    const limits = { max_rows: pageRows, timeout_seconds: timeoutSeconds }
    const optional = statement.parameters.length === 0 ? {} : { parameters: statement.parameters }
    start({ text, mode: 'read', ...limits, ...optional }, target, 0)
  }, [text, parameters, version])
  const rows = run.results[0]?.rows ?? []
  const canEdit = isEditable(table)
  const kinds = new Map(staged.edits.map(({ id: editId, kind }) => [editId, kind]))
  const actions: RowActions = {
    label: (index, change) => own.editRow(index + 1, change),
    stagedChange: index => {
      const kind = kinds.get(idOfRow(table, keyOf(table, rows[index] ?? [])))
      return kind === undefined ? undefined : own.stagedKinds[kind]
    },
    open: index => setEdited({ row: rows[index] }),
  }
  const { offset } = choice
  return (
    <div className="stack">
      <TableChoice
        table={table}
        filters={choice.filters}
        sort={choice.sort}
        onChange={(filters, sort) => setChoice({ filters, sort, offset: 0 })}
      />
      <Code label={own.statement} text={text} />
      {run.isRunning && <p role="status">{texts.sql.running}</p>}
      {run.error !== undefined && (
        <p className="notice tone-bad wrap" role="alert">
          {run.error}
        </p>
      )}
      {canEdit ? (
        <div className="row">
          <Button onClick={() => setEdited({ row: undefined })} disabled={staged.isFull}>
            {own.newRow}
          </Button>
          <span className="quiet">{staged.isFull ? own.full : own.editHint}</span>
        </div>
      ) : (
        <p className="notice">{own.readOnly(table.kind)}</p>
      )}
      <SqlResults
        results={canEdit ? withoutVersion(run.results) : run.results}
        isPlan={false}
        {...(canEdit ? { actions } : {})}
      />
      <div className="row">
        <Button disabled={offset === 0} onClick={() => setChoice({ ...choice, offset: offset - pageRows })}>
          {own.previous}
        </Button>
        <Button disabled={rows.length < pageRows} onClick={() => setChoice({ ...choice, offset: offset + pageRows })}>
          {own.next}
        </Button>
        <span className="quiet">{own.range(offset + 1, offset + rows.length)}</span>
      </div>
      <Dialog
        open={edited !== undefined}
        onClose={() => setEdited(undefined)}
        title={edited?.row === undefined ? own.newRow : own.changeRow}
        description={own.stageWhat}
        className="dialog-wide"
      >
        {edited !== undefined && (
          <RowForm table={table} row={edited.row} staged={staged} onClose={() => setEdited(undefined)} />
        )}
      </Dialog>
    </div>
  )
}

const nameOf = ({ schema, name }: Table): string => JSON.stringify([schema, name])

function Browser({ target, tables }: { target: Target; tables: readonly Table[] }) {
  const [key, setKey] = useState('')
  const [version, setVersion] = useState(0)
  const staged = useStaged(useAccount(), target)
  const table = tables.find(one => nameOf(one) === key) ?? tables[0]
  if (table === undefined)
    return (
      <Empty
        title={own.none}
        action={
          <TargetLink target={target} tab="sql" className={buttonClass('primary')}>
            {texts.sql.editor}
          </TargetLink>
        }
      >
        {own.noneWhat}
      </Empty>
    )
  return (
    <>
      <Field label={own.table} hint={own.facts(table.columns.length, table.rows)}>
        {attributes => (
          <select
            {...attributes}
            className="input"
            value={nameOf(table)}
            onChange={event => setKey(event.target.value)}
          >
            {tables.map(one => (
              <option key={nameOf(one)} value={nameOf(one)}>
                {own.name(one.schema, one.name)}
              </option>
            ))}
          </select>
        )}
      </Field>
      <details>
        <summary>{own.columns}</summary>
        <ul className="bullets">
          {table.columns.map(({ name, type }) => (
            <li key={name} className="mono wrap">
              {own.column(name, type)}
            </li>
          ))}
        </ul>
      </details>
      <Rows key={nameOf(table)} target={target} table={table} staged={staged} version={version} />
      <StagedEdits target={target} staged={staged} onCommit={() => setVersion(version + 1)} />
    </>
  )
}

export default function Tables() {
  const target = useTarget()
  const query = useQuery(tablesQuery(useAccount(), target))
  return (
    <section className="card card-body stack" aria-label={own.title}>
      <Result query={query} what={own.title}>
        {tables => <Browser target={target} tables={tables} />}
      </Result>
    </section>
  )
}

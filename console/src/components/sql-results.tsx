/** The results of a run. Each statement has rows, a plan or a summary. */
import { useState } from 'react'
import { planOf } from '../lib/plan.ts'
import { saveFile } from '../lib/save.ts'
import { csvOf, jsonOf, type SqlResult } from '../lib/sql.ts'
import { texts } from '../texts.ts'
import { Button } from './button.tsx'
import { Grid, type RowActions } from './grid.tsx'
import { Plan } from './plan.tsx'

const own = texts.sql

const summaryOf = ({ complete, rows, columns, fault }: SqlResult): string => {
  if (fault !== undefined) return own.failed
  if (complete === undefined) return own.arrived(rows.length)
  if (columns === undefined) return own.command(complete.command, complete.rowCount, complete.ms)
  return own.summary(rows.length, complete.ms, complete.more)
}

type MessagesProps = { result: SqlResult; charactersBefore: number }

function Messages({ result: { notices, fault }, charactersBefore }: MessagesProps) {
  const position = fault?.position === undefined ? undefined : charactersBefore + fault.position
  return (
    <>
      {fault !== undefined && (
        <div className="notice tone-bad" role="alert">
          <strong>{fault.message}</strong>
          {fault.detail !== undefined && <span>{fault.detail}</span>}
          {fault.hint !== undefined && <span>{fault.hint}</span>}
          <span className="mono">{own.fault(fault.sqlstate, position)}</span>
        </div>
      )}
      {notices.map(({ severity, message, detail, hint }, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: notices are only appended
        <p key={index} className="notice tone-warning">
          <strong>{severity}</strong> {message} {detail} {hint}
        </p>
      ))}
    </>
  )
}

type ShownProps = { isPlan: boolean; actions?: RowActions | undefined; charactersBefore?: number }

function Shown({ result, isPlan, actions, charactersBefore = 0 }: ShownProps & { result: SqlResult }) {
  const { columns, rows, complete } = result
  const plan = isPlan ? planOf(rows[0]?.[0] ?? '') : undefined
  return (
    <div className="stack-small">
      <Messages result={result} charactersBefore={charactersBefore} />
      <div className="row-spread">
        <p className="quiet" role="status">
          {summaryOf(result)}
        </p>
        {columns !== undefined && complete !== undefined && rows.length > 0 && plan === undefined && (
          <div className="row">
            <Button small onClick={() => saveFile('result.csv', 'text/csv', csvOf(columns, rows))}>
              {own.csv}
            </Button>
            <Button small onClick={() => saveFile('result.json', 'application/json', jsonOf(columns, rows))}>
              {own.json}
            </Button>
          </div>
        )}
      </div>
      {plan !== undefined && <Plan lines={plan} />}
      {plan === undefined && columns !== undefined && (
        <Grid columns={columns} rows={rows} count={rows.length} actions={actions} />
      )}
    </div>
  )
}

export function SqlResults({
  results,
  isPlan,
  actions,
  charactersBefore,
}: ShownProps & { results: readonly SqlResult[] }) {
  const [chosen, setChosen] = useState(0)
  const shown = results[Math.min(chosen, results.length - 1)]
  if (shown === undefined) return null
  return (
    <div className="stack-small">
      {results.length > 1 && (
        <nav className="tabs tabs-small" aria-label={own.results}>
          {results.map((result, index) => (
            <button
              key={result.statement}
              type="button"
              className="tab"
              aria-current={result === shown ? 'page' : undefined}
              onClick={() => setChosen(index)}
            >
              {own.result(index + 1, result.fault !== undefined)}
            </button>
          ))}
        </nav>
      )}
      <Shown result={shown} isPlan={isPlan} actions={actions} charactersBefore={charactersBefore} />
    </div>
  )
}

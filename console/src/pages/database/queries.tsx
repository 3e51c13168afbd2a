/** The page of statements with the most time, calls or rows, and of their plans. */
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useAccount, useApi } from '../../api/accounts.ts'
import { orders, queriesQuery, type StatementOrder } from '../../api/queries.ts'
import { Button } from '../../components/button.tsx'
import { Code } from '../../components/code.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { Field } from '../../components/field.tsx'
import { SqlResults } from '../../components/sql-results.tsx'
import { Empty, Result } from '../../components/state.tsx'
import { moment } from '../../lib/format.ts'
import { milliseconds, modeOf, parametersOf } from '../../lib/statements.ts'
import { type Target, useTarget } from '../../lib/target.ts'
import { useSql } from '../../lib/use-sql.ts'
import { texts } from '../../texts.ts'

const own = texts.queries
const timeoutSeconds = 30

type Statement = { id: string; role: string; text: string; is_cut: boolean }

/** Shows the plan of a statement. Postgres does not keep the constants of a statement, so the user enters them. */
function Explain({ target, text, isCut }: { target: Target; text: string; isCut: boolean }) {
  const names = parametersOf(text)
  const [values, setValues] = useState<Record<string, string>>({})
  const { run, start } = useSql(useAccount())
  const explain = () => {
    const parameters = names.length === 0 ? {} : { parameters: names.map(name => values[name] ?? '') }
    const limits = { max_rows: 10_000, timeout_seconds: timeoutSeconds }
    start({ text, mode: modeOf(text), explain: 'plan', ...limits, ...parameters }, target, 0)
  }
  return (
    <form
      className="stack"
      onSubmit={event => {
        event.preventDefault()
        explain()
      }}
    >
      <Code label={own.statement} text={text} />
      {names.length > 0 && (
        <>
          <p className="quiet">{own.parametersWhat}</p>
          <div className="sql-options">
            {names.map(name => (
              <Field key={name} label={own.parameter(name)}>
                {attributes => (
                  <input
                    {...attributes}
                    className="input mono"
                    maxLength={1000}
                    value={values[name] ?? ''}
                    onChange={event => setValues({ ...values, [name]: event.target.value })}
                  />
                )}
              </Field>
            ))}
          </div>
        </>
      )}
      <div className="row">
        <Button type="submit" variant="primary" disabled={isCut} busy={run.isRunning && texts.sql.running}>
          {texts.sql.explain}
        </Button>
        <span className="quiet">{isCut ? own.cut : own.explainHint}</span>
      </div>
      {run.error !== undefined && (
        <p className="notice tone-bad wrap" role="alert">
          {run.error}
        </p>
      )}
      <SqlResults results={run.results} isPlan={run.isPlan} />
    </form>
  )
}

export default function Queries() {
  const target = useTarget()
  const [order, setOrder] = useState<StatementOrder>('total_time')
  const [shown, setShown] = useState<Statement>()
  const query = useQuery(queriesQuery(useApi(), target, order))
  return (
    <section className="card" aria-label={own.title}>
      <div className="card-body stack">
        <div className="sql-options">
          <Field label={own.order}>
            {attributes => (
              <select
                {...attributes}
                className="input"
                value={order}
                onChange={event => setOrder(orders.find(one => one === event.target.value) ?? 'total_time')}
              >
                {orders.map(one => (
                  <option key={one} value={one}>
                    {own.orders[one]}
                  </option>
                ))}
              </select>
            )}
          </Field>
          <div>
            <Button onClick={() => query.refetch()} busy={query.isFetching && own.reading}>
              {own.refresh}
            </Button>
          </div>
        </div>
        <Result query={query} what={own.title}>
          {({ since, queries }) =>
            queries.length === 0 ? (
              <Empty title={own.none}>{own.noneWhat}</Empty>
            ) : (
              <>
                <p className="quiet">{since === undefined ? own.what : own.since(moment(Date.parse(since)))}</p>
                {/* biome-ignore lint/a11y/noNoninteractiveTabindex: keyboard users must be able to scroll it */}
                <section className="table-frame" tabIndex={0} aria-label={own.list}>
                  <table className="table">
                    <thead>
                      <tr>
                        <th scope="col">{own.columns.statement}</th>
                        <th scope="col">{own.columns.share}</th>
                        <th scope="col">{own.columns.total}</th>
                        <th scope="col">{own.columns.mean}</th>
                        <th scope="col">{own.columns.calls}</th>
                        <th scope="col">{own.columns.rows}</th>
                        <th scope="col">{own.columns.role}</th>
                      </tr>
                    </thead>
                    <tbody>
                      {queries.map(one => (
                        <tr key={`${one.id} ${one.role}`}>
                          <th scope="row" className="cell-plain statement">
                            <button type="button" className="link mono" onClick={() => setShown(one)}>
                              {one.text.replaceAll(/\s+/g, ' ').slice(0, 200)}
                            </button>
                          </th>
                          <td className="numeric nowrap">{texts.operations.percent(Math.round(one.share * 100))}</td>
                          <td className="numeric nowrap">{milliseconds(one.total_ms)}</td>
                          <td className="numeric nowrap">{milliseconds(one.mean_ms)}</td>
                          <td className="numeric">{one.calls.toLocaleString('en')}</td>
                          <td className="numeric">{one.rows.toLocaleString('en')}</td>
                          <td className="mono">{one.role}</td>
                        </tr>
                      ))}
                    </tbody>
                  </table>
                </section>
              </>
            )
          }
        </Result>
      </div>
      <Dialog
        open={shown !== undefined}
        onClose={() => setShown(undefined)}
        title={own.statement}
        className="dialog-wide"
      >
        {shown !== undefined && <Explain target={target} text={shown.text} isCut={shown.is_cut} />}
        <div className="dialog-end">
          <Button onClick={() => setShown(undefined)}>{texts.dialog.close}</Button>
        </div>
      </Dialog>
    </section>
  )
}

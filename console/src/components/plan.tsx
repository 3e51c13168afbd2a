/** A plan of EXPLAIN as a tree, with each node's share of the total time or cost. */
import type { PlanLine } from '../lib/plan.ts'
import { texts } from '../texts.ts'

const own = texts.sql.plan

export function Plan({ lines }: { lines: readonly PlanLine[] }) {
  const isAnalyzed = lines.some(({ actual }) => actual !== undefined)
  return (
    <div className="table-frame">
      <table className="table plan">
        <caption className="visually-hidden">{own.title}</caption>
        <thead>
          <tr>
            <th scope="col">{own.node}</th>
            <th scope="col">{isAnalyzed ? own.shareOfTime : own.shareOfCost}</th>
            <th scope="col">{own.rows}</th>
            {isAnalyzed && <th scope="col">{own.actualRows}</th>}
            <th scope="col">{isAnalyzed ? own.time : own.cost}</th>
          </tr>
        </thead>
        <tbody>
          {lines.map(({ key, depth, title, rows, cost, actual, share, details }) => (
            <tr key={key}>
              <th scope="row" className="cell-plain">
                <div style={{ paddingInlineStart: depth * 18 }}>
                  {title}
                  {details.map(detail => (
                    <p key={detail} className="quiet mono wrap">
                      {detail}
                    </p>
                  ))}
                </div>
              </th>
              <td className="numeric nowrap">
                <span className="bar" aria-hidden="true">
                  <span style={{ width: `${share * 100}%` }} />
                </span>
                {texts.operations.percent(Math.round(share * 100))}
              </td>
              <td className="numeric">{rows}</td>
              {isAnalyzed && <td className="numeric">{actual?.rows ?? '–'}</td>}
              <td className="numeric nowrap">{actual === undefined ? cost : own.ms(actual.ms)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** A grid of result rows. It renders only the visible rows. */
import { useVirtualizer } from '@tanstack/react-virtual'
import { useRef } from 'react'
import type { Column, Value } from '../lib/sql.ts'
import { texts } from '../texts.ts'

const rowHeight = 29
const sampledRows = 100
const [minWidth, maxWidth] = [72, 420]

/** Returns the width in pixels. It depends only on the first rows, so it does not change while the user scrolls. */
function widthOf(column: Column, index: number, rows: readonly Value[][]): number {
  const lengths = rows.slice(0, sampledRows).map(row => Math.min(60, row[index]?.length ?? 4))
  return Math.min(maxWidth, Math.max(minWidth, Math.max(column.name.length, ...lengths) * 7.8 + 26))
}

/** Maximum number of characters that a cell shows. Exports contain complete values. */
const shownLength = 300
const shown = (value: string): string => (value.length > shownLength ? `${value.slice(0, shownLength)}…` : value)

/** Actions of the row numbers, in a grid whose rows the user can change. */
export type RowActions = {
  label: (index: number, change: string | undefined) => string
  /** Returns a text for the staged change of a row; undefined if it has none. */
  stagedChange: (index: number) => string | undefined
  open: (index: number) => void
}

function RowNumber({ index, actions }: { index: number; actions: RowActions | undefined }) {
  if (actions === undefined) return index + 1
  return (
    <button
      type="button"
      className="link"
      aria-label={actions.label(index, actions.stagedChange(index))}
      onClick={() => actions.open(index)}
    >
      {index + 1}
    </button>
  )
}

type Props = {
  columns: readonly Column[]
  rows: readonly Value[][]
  /** Number of rows. It is a separate prop, because `rows` grows in place. */
  count: number
  actions?: RowActions | undefined
}

export function Grid({ columns, rows, count, actions }: Props) {
  const frame = useRef<HTMLDivElement>(null)
  const virtual = useVirtualizer({
    count,
    getScrollElement: () => frame.current,
    estimateSize: () => rowHeight,
    overscan: 10,
  })
  const items = virtual.getVirtualItems()
  const before = items[0]?.start ?? 0
  const after = virtual.getTotalSize() - (items.at(-1)?.end ?? 0)
  const numbers = Math.max(44, String(count).length * 8 + 22)
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: keyboard users must be able to scroll it
    <section className="grid-frame" ref={frame} tabIndex={0} aria-label={texts.sql.rows}>
      <table className="grid" aria-rowcount={count + 1}>
        <colgroup>
          <col style={{ width: numbers }} />
          {columns.map((column, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: columns have no other identity, and do not change
            <col key={index} style={{ width: widthOf(column, index, rows) }} />
          ))}
        </colgroup>
        <thead>
          <tr aria-rowindex={1}>
            <th scope="col">
              <span className="visually-hidden">{texts.sql.rowNumber}</span>
            </th>
            {columns.map(({ name }, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: columns have no other identity, and do not move
              <th key={index} scope="col" title={name}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {before > 0 && <Space height={before} span={columns.length + 1} />}
          {items.map(({ index }) => (
            <tr
              key={index}
              aria-rowindex={index + 2}
              className={actions?.stagedChange(index) === undefined ? undefined : 'grid-staged'}
            >
              <td className="grid-number">
                <RowNumber index={index} actions={actions} />
              </td>
              {(rows[index] ?? []).map((value, column) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: columns have no other identity, and do not move
                <td key={column} className={value === null ? 'grid-null' : undefined}>
                  {value === null ? 'NULL' : shown(value)}
                </td>
              ))}
            </tr>
          ))}
          {after > 0 && <Space height={after} span={columns.length + 1} />}
        </tbody>
      </table>
    </section>
  )
}

function Space({ height, span }: { height: number; span: number }) {
  return (
    // biome-ignore lint/a11y/noAriaHiddenOnFocusable: it contains no focusable element
    <tr aria-hidden="true">
      <td colSpan={span} className="space" style={{ height }} />
    </tr>
  )
}

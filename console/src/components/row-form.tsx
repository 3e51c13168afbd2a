/** The form of one row. It stages the entered values as a change. */
import { useId, useState } from 'react'
import { changedValue, type Edit, idOfRow, keyOf } from '../lib/edits.ts'
import type { Value } from '../lib/sql.ts'
import type { Staged } from '../lib/staged.ts'
import type { Column, Table } from '../lib/tables.ts'
import { texts } from '../texts.ts'
import { Button } from './button.tsx'

const own = texts.tables
const longLine = 60
/** Counter that gives each new row an id. */
let newRows = 0

/** Entered values by column. Other columns keep their value, or get their default in a new row. */
type Entered = ReadonlyMap<string, Value>

type CellProps = {
  column: Column
  /** Value in the database; undefined for a new row. */
  before: Value | undefined
  entered: Value | undefined
  onChange: (value: Value | undefined) => void
}

function Cell({ column: { name, type, isNullable, isGenerated, isKey }, before, entered, onChange }: CellProps) {
  const id = useId()
  const value = entered === undefined ? (before ?? null) : entered
  const state = entered === undefined ? 'kept' : entered === null ? 'null' : 'value'
  const label = own.column(name, type)
  return (
    <div className="field">
      <label className="field-label wrap" htmlFor={id}>
        {label}
        {isKey && <span className="quiet"> {own.primaryKey}</span>}
      </label>
      <div className="row-cell">
        <textarea
          id={id}
          className="input mono"
          rows={(value ?? '').length > longLine || value?.includes('\n') ? 4 : 1}
          value={value ?? ''}
          disabled={isGenerated}
          placeholder={value === null && (before !== undefined || state === 'null') ? own.null : ''}
          onChange={event => onChange(event.target.value)}
        />
        <select
          className="input"
          aria-label={own.stateOf(name)}
          value={state}
          disabled={isGenerated}
          onChange={({ target }) =>
            onChange(target.value === 'kept' ? undefined : target.value === 'null' ? null : (value ?? ''))
          }
        >
          <option value="kept">{before === undefined ? own.default : own.kept}</option>
          <option value="value">{own.value}</option>
          {(isNullable || state === 'null') && <option value="null">{own.null}</option>}
        </select>
      </div>
    </div>
  )
}

type Props = { table: Table; row: readonly Value[] | undefined; staged: Staged; onClose: () => void }

/** @param row the column values, followed by the version of the row; undefined for a new row */
export function RowForm({ table, row, staged, onClose }: Props) {
  const [newId] = useState(() => `new ${++newRows}`)
  const id = row === undefined ? newId : idOfRow(table, keyOf(table, row))
  const before = staged.edits.find(edit => edit.id === id)
  const [entered, setEntered] = useState<Entered>(
    before === undefined || before.kind === 'delete' ? new Map() : before.values,
  )
  const values = new Map(
    table.columns.flatMap(({ name }, index) => {
      const value = entered.get(name)
      const changed = value === undefined || row === undefined ? value : changedValue(row[index] ?? null, value)
      return changed === undefined ? [] : [[name, changed] as const]
    }),
  )
  const stage = (edit: Edit) => {
    staged.stage(edit)
    onClose()
  }
  const existing = row === undefined ? undefined : { id, table, key: keyOf(table, row), version: row.at(-1) ?? '' }
  const canStage = existing === undefined || values.size > 0
  return (
    <form
      className="stack"
      onSubmit={event => {
        event.preventDefault()
        if (!canStage) return
        stage(existing === undefined ? { id, table, kind: 'insert', values } : { ...existing, kind: 'update', values })
      }}
    >
      {table.columns.map((column, index) => (
        <Cell
          key={column.name}
          column={column}
          before={row === undefined ? undefined : (row[index] ?? null)}
          entered={entered.get(column.name)}
          onChange={value => {
            const next = new Map(entered)
            if (value === undefined) next.delete(column.name)
            else next.set(column.name, value)
            setEntered(next)
          }}
        />
      ))}
      <div className="dialog-end">
        {before !== undefined && (
          <Button
            onClick={() => {
              staged.remove(id)
              onClose()
            }}
          >
            {own.unstage}
          </Button>
        )}
        {existing !== undefined && (
          <Button variant="danger" disabled={staged.isFull} onClick={() => stage({ ...existing, kind: 'delete' })}>
            {own.stageDelete}
          </Button>
        )}
        <Button onClick={onClose}>{texts.dialog.cancel}</Button>
        <Button type="submit" variant="primary" disabled={!canStage || (staged.isFull && before === undefined)}>
          {own.stage}
        </Button>
      </div>
    </form>
  )
}

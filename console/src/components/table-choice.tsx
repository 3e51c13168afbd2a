/** The form for filters and sort order of a table's rows. The user applies all changes together. */
import { useState } from 'react'
import { type Filter, type Operator, operators, type Sort, type Table } from '../lib/tables.ts'
import { texts } from '../texts.ts'
import { Button } from './button.tsx'
import { Field } from './field.tsx'

const own = texts.tables

type ChoiceProps = {
  table: Table
  filters: readonly Filter[]
  sort: Sort | undefined
  onChange: (filters: readonly Filter[], sort: Sort | undefined) => void
}

function ColumnSelect({ label, table, value, none, onChange }: ColumnSelectProps) {
  return (
    <Field label={label}>
      {attributes => (
        <select {...attributes} className="input" value={value} onChange={event => onChange(event.target.value)}>
          {none !== undefined && <option value="">{none}</option>}
          {table.columns.map(({ name, type }) => (
            <option key={name} value={name}>
              {own.column(name, type)}
            </option>
          ))}
        </select>
      )}
    </Field>
  )
}
type ColumnSelectProps = {
  label: string
  table: Table
  value: string
  none?: string
  onChange: (column: string) => void
}

export function TableChoice({ table, filters, sort, onChange }: ChoiceProps) {
  const [drafts, setDrafts] = useState(filters)
  const [order, setOrder] = useState(sort)
  const change = (index: number, next: Partial<Filter>) =>
    setDrafts(drafts.map((draft, at) => (at === index ? { ...draft, ...next } : draft)))
  return (
    <form
      className="stack-small"
      onSubmit={event => {
        event.preventDefault()
        onChange(drafts, order)
      }}
    >
      {drafts.map(({ column, operator, value }, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: filters have no id, and their fields have no state
        <div key={index} className="sql-options">
          <ColumnSelect
            label={own.filterColumn(index + 1)}
            table={table}
            value={column}
            onChange={next => change(index, { column: next })}
          />
          <Field label={own.filterOperator(index + 1)}>
            {attributes => (
              <select
                {...attributes}
                className="input"
                value={operator}
                onChange={event => change(index, { operator: event.target.value as Operator })}
              >
                {operators.map(one => (
                  <option key={one} value={one}>
                    {own.operators[one]}
                  </option>
                ))}
              </select>
            )}
          </Field>
          {operator !== 'null' && operator !== 'notNull' && (
            <Field label={own.filterValue(index + 1)}>
              {attributes => (
                <input
                  {...attributes}
                  className="input mono"
                  maxLength={1000}
                  value={value}
                  onChange={event => change(index, { value: event.target.value })}
                />
              )}
            </Field>
          )}
          <div>
            <Button small onClick={() => setDrafts(drafts.filter((_, at) => at !== index))}>
              {own.removeFilter(index + 1)}
            </Button>
          </div>
        </div>
      ))}
      <div className="sql-options">
        <ColumnSelect
          label={own.sort}
          table={table}
          value={order?.column ?? ''}
          none={own.unsorted}
          onChange={column =>
            setOrder(column === '' ? undefined : { column, isDescending: order?.isDescending === true })
          }
        />
        <Field label={own.direction}>
          {attributes => (
            <select
              {...attributes}
              className="input"
              disabled={order === undefined}
              value={order?.isDescending === true ? 'down' : 'up'}
              onChange={event => order && setOrder({ ...order, isDescending: event.target.value === 'down' })}
            >
              <option value="up">{own.ascending}</option>
              <option value="down">{own.descending}</option>
            </select>
          )}
        </Field>
      </div>
      <div className="row">
        <Button
          onClick={() =>
            setDrafts([...drafts, { column: table.columns[0]?.name ?? '', operator: 'contains', value: '' }])
          }
        >
          {own.addFilter}
        </Button>
        <Button type="submit" variant="primary">
          {own.apply}
        </Button>
      </div>
    </form>
  )
}

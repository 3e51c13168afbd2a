/** The inputs of a form that the console builds from a schema of the API. */
import { type FormField, type FormObject, type FormValue, valuesOf } from '../lib/schema-form.ts'
import { texts } from '../texts.ts'
import { Button } from './button.tsx'
import { Check, Field } from './field.tsx'

const own = texts.services
type One<K extends FormField['kind']> = Extract<FormField, { kind: K }>
type Change = (value: FormValue | undefined) => void

function Input({ field, value, onChange }: { field: FormField; value: FormValue | undefined; onChange: Change }) {
  const text = typeof value === 'string' ? value : ''
  return (
    <Field label={field.isRequired ? field.label : own.optional(field.label)} hint={field.hint || undefined}>
      {attributes => {
        const common = {
          ...attributes,
          ...{ className: 'input', value: text, required: field.isRequired && field.kind !== 'secret' },
          onChange: (event: { target: { value: string } }) => onChange(event.target.value),
        }
        if (field.kind === 'choice')
          return (
            <select {...common}>
              {!field.isRequired && <option value="">{own.none}</option>}
              {field.choices.map(one => (
                <option key={one} value={one}>
                  {one}
                </option>
              ))}
            </select>
          )
        if (field.kind === 'lines' || field.key === 'system_prompt') return <textarea {...common} />
        if (field.kind === 'number')
          return (
            <input {...common} type="number" min={field.least} max={field.most} step={field.isInteger ? 1 : 'any'} />
          )
        return <input {...common} maxLength={field.kind === 'text' ? field.most : undefined} spellCheck={false} />
      }}
    </Field>
  )
}

function Secret({ field, value, onChange }: { field: One<'secret'>; value: FormValue | undefined; onChange: Change }) {
  return (
    <div className="stack-small">
      <Field label={own.secret(field.label)} hint={field.hint || undefined}>
        {attributes => (
          <input
            {...attributes}
            className="input"
            type="password"
            autoComplete="off"
            disabled={value === null}
            value={typeof value === 'string' ? value : ''}
            onChange={event => onChange(event.target.value)}
          />
        )}
      </Field>
      {field.isRemovable && (
        <Check
          label={own.removeStored(field.label)}
          checked={value === null}
          onChange={checked => onChange(checked ? null : '')}
        />
      )}
    </div>
  )
}

function Group({ field, value, onChange }: { field: One<'object'>; value: FormValue | undefined; onChange: Change }) {
  const values = value === undefined ? undefined : (value as FormObject)
  return (
    <fieldset className="group">
      <legend>{field.label}</legend>
      {field.hint !== '' && <p className="field-hint">{field.hint}</p>}
      {!field.isRequired && (
        <Check
          label={own.setGroup(field.label)}
          checked={values !== undefined}
          onChange={checked => onChange(checked ? valuesOf(field.fields, {}) : undefined)}
        />
      )}
      {values !== undefined && <SchemaFields fields={field.fields} values={values} onChange={onChange} />}
    </fieldset>
  )
}

function List({ field, value, onChange }: { field: One<'list'>; value: FormValue | undefined; onChange: Change }) {
  const items = Array.isArray(value) ? value : []
  return (
    <fieldset className="group">
      <legend>{field.label}</legend>
      {field.hint !== '' && <p className="field-hint">{field.hint}</p>}
      {items.map((item, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: items have no id, and their fields have no state
        <fieldset key={index} className="group">
          <legend>{own.item(field.label, index + 1)}</legend>
          <SchemaFields
            fields={field.fields}
            values={item}
            onChange={next => onChange(items.map((one, at) => (at === index ? next : one)))}
          />
          <div>
            <Button small onClick={() => onChange(items.filter((_, at) => at !== index))}>
              {own.removeItem(field.label, index + 1)}
            </Button>
          </div>
        </fieldset>
      ))}
      <div>
        <Button small onClick={() => onChange([...items, valuesOf(field.fields, {})])}>
          {own.addItem(field.label)}
        </Button>
      </div>
    </fieldset>
  )
}

type Props = { fields: readonly FormField[]; values: FormObject; onChange: (values: FormObject) => void }

export function SchemaFields({ fields, values, onChange }: Props) {
  return (
    <div className="stack">
      {fields.map(field => {
        const { key } = field
        const value = values[key]
        const change: Change = next => {
          const { [key]: _before, ...others } = values
          onChange(next === undefined ? others : { ...others, [key]: next })
        }
        if (field.kind === 'boolean')
          return <Check key={key} label={field.label} hint={field.hint} checked={value === true} onChange={change} />
        if (field.kind === 'secret') return <Secret key={key} field={field} value={value} onChange={change} />
        if (field.kind === 'object') return <Group key={key} field={field} value={value} onChange={change} />
        if (field.kind === 'list') return <List key={key} field={field} value={value} onChange={change} />
        return <Input key={key} field={field} value={value} onChange={change} />
      })}
    </div>
  )
}

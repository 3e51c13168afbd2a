/** A field that selects Postgres or one of the services of a database or branch. */
import { type ServiceType, serviceTypes } from '../lib/services.ts'
import type { Target } from '../lib/target.ts'
import { useOwner } from '../lib/use-owner.ts'
import { texts } from '../texts.ts'
import { Field } from './field.tsx'

export type Source = 'postgres' | ServiceType
type Props = { target: Target; label: string; source: Source; onChange: (source: Source) => void }

export function SourceField({ target, label, source, onChange }: Props) {
  const owner = useOwner(target)
  const present = serviceTypes.filter(type => owner?.services?.some(({ service_type: one }) => one === type))
  return (
    <Field label={label}>
      {attributes => (
        <select
          {...attributes}
          className="input"
          value={source}
          onChange={event => onChange(present.find(type => type === event.target.value) ?? 'postgres')}
        >
          <option value="postgres">{texts.logs.postgres}</option>
          {present.map(type => (
            <option key={type} value={type}>
              {texts.services.names[type]}
            </option>
          ))}
        </select>
      )}
    </Field>
  )
}

/** Chooses Postgres or one of the services of a database. */
import { useQuery } from '@tanstack/react-query'
import { useApi } from '../api/accounts.ts'
import { databaseQuery } from '../api/queries.ts'
import { type ServiceType, serviceTypes } from '../lib/services.ts'
import { texts } from '../texts.ts'
import { Field } from './field.tsx'

export type Source = 'postgres' | ServiceType
type Props = { id: string; label: string; source: Source; onChange: (source: Source) => void }

export function SourceField({ id, label, source, onChange }: Props) {
  const { data } = useQuery(databaseQuery(useApi(), id))
  const present = serviceTypes.filter(type => data?.services?.some(({ service_type: one }) => one === type))
  return (
    <Field label={label}>
      {given => (
        <select
          {...given}
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

/** A choice of sizes, with their resources and prices. */
import { useId } from 'react'
import type { Schemas } from '../api/client.ts'
import { price, quantityOfBytes } from '../lib/format.ts'
import { texts } from '../texts.ts'

type Size = Schemas['Size']
type Props = { sizes: readonly Size[]; value: string; onChange: (name: string) => void; legend: string }

export function SizeChoice({ sizes, value, onChange, legend }: Props) {
  const id = useId()
  return (
    <fieldset className="choices">
      <legend className="field-label">{legend}</legend>
      {sizes.map(size => (
        <label key={size.id} className="choice">
          <input
            type="radio"
            name={id}
            value={size.name}
            checked={size.name === value}
            onChange={() => onChange(size.name)}
          />
          <span className="choice-text">
            <span className="row">
              <strong>{size.display_name}</strong>
              {size.display_name !== size.name && <span className="quiet">{size.name}</span>}
            </span>
            <span className="quiet">
              {texts.sizes.facts(
                size.cpu_limit,
                quantityOfBytes(size.memory_limit),
                quantityOfBytes(size.storage_size),
              )}
            </span>
            <span className="quiet">{texts.sizes.connections(size.connections)}</span>
            {size.pricing !== undefined && <span>{price(size.pricing)}</span>}
          </span>
        </label>
      ))}
    </fieldset>
  )
}

/** A form field: label, input, hint and error. */
import { type ReactNode, useId } from 'react'

type InputAttributes = { id: string; 'aria-describedby': string | undefined; 'aria-invalid': boolean | undefined }
type Props = {
  label: string
  hint?: ReactNode
  error?: string | undefined
  /** Renders the input. The attributes connect it to its label, hint and error. */
  children: (attributes: InputAttributes) => ReactNode
}

export function Field({ label, hint, error, children }: Props) {
  const id = useId()
  const [hintId, errorId] = [`${id}-hint`, `${id}-error`]
  const described = [hint !== undefined && hintId, error !== undefined && errorId].filter(Boolean).join(' ')
  return (
    <div className="field">
      <label className="field-label" htmlFor={id}>
        {label}
      </label>
      {children({
        id,
        'aria-describedby': described === '' ? undefined : described,
        'aria-invalid': error === undefined ? undefined : true,
      })}
      {hint !== undefined && (
        <div className="field-hint" id={hintId}>
          {hint}
        </div>
      )}
      {error !== undefined && (
        <div className="field-error" id={errorId} role="alert">
          {error}
        </div>
      )}
    </div>
  )
}

type CheckProps = {
  label: ReactNode
  hint?: ReactNode
  checked: boolean
  onChange: (checked: boolean) => void
  disabled?: boolean
}

export function Check({ label, hint, checked, onChange, disabled }: CheckProps) {
  const id = useId()
  return (
    <div className="check">
      <input
        id={id}
        type="checkbox"
        checked={checked}
        disabled={disabled}
        aria-describedby={hint === undefined ? undefined : `${id}-hint`}
        onChange={event => onChange(event.target.checked)}
      />
      <div>
        <label htmlFor={id}>{label}</label>
        {hint !== undefined && (
          <div className="field-hint" id={`${id}-hint`}>
            {hint}
          </div>
        )}
      </div>
    </div>
  )
}

import type { ButtonHTMLAttributes, ReactNode } from 'react'

type Variant = 'primary' | 'danger' | 'plain'
type Props = ButtonHTMLAttributes<HTMLButtonElement> & {
  variant?: Variant
  small?: boolean
  wide?: boolean
  /** Text that replaces the children while the action runs. The button then ignores clicks. */
  busy?: string | false | undefined
  children: ReactNode
}

export const buttonClass = (variant?: Variant, small = false, wide = false): string =>
  ['button', variant && `button-${variant}`, small && 'button-small', wide && 'button-wide'].filter(Boolean).join(' ')

export function Button({ variant, small, wide, busy, children, onClick, type = 'button', ...rest }: Props) {
  const isBusy = typeof busy === 'string'
  return (
    <button
      {...rest}
      type={type}
      className={buttonClass(variant, small, wide)}
      aria-disabled={isBusy || undefined}
      onClick={event => (isBusy ? event.preventDefault() : onClick?.(event))}
    >
      {isBusy ? busy : children}
    </button>
  )
}

type IconProps = ButtonHTMLAttributes<HTMLButtonElement> & { label: string; children: ReactNode }

export function IconButton({ label, children, ...rest }: IconProps) {
  return (
    <button {...rest} type="button" className="button button-plain button-icon" aria-label={label} title={label}>
      {children}
    </button>
  )
}

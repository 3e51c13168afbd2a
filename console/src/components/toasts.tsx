/** Short notifications. A screen reader reads each new one. */
import { useSyncExternalStore } from 'react'
import { texts } from '../texts.ts'
import { IconButton } from './button.tsx'
import { Icon } from './icons.tsx'

type Toast = { id: number; text: string; tone: 'good' | 'bad' }

let toasts: readonly Toast[] = []
let last = 0
const listeners = new Set<() => void>()
const shownMs = 6000
const maxToasts = 4

function change(next: readonly Toast[]): void {
  toasts = next
  for (const listener of listeners) listener()
}

const dismiss = (id: number): void => change(toasts.filter(toast => toast.id !== id))

/** Returns the notification to remove if there are too many: the oldest that is not an error, else the oldest. */
const surplusOf = (all: readonly Toast[]): Toast | undefined =>
  all.length > maxToasts ? (all.slice(0, -1).find(({ tone }) => tone === 'good') ?? all[0]) : undefined

/** Shows a notification. An error stays until the user dismisses it, or until it is the oldest of four errors. */
export function notify(text: string, tone: Toast['tone'] = 'good'): void {
  last += 1
  const id = last
  const all = [...toasts, { id, text, tone }]
  const surplus = surplusOf(all)
  change(all.filter(toast => toast !== surplus))
  if (tone === 'good') setTimeout(() => dismiss(id), shownMs)
}

const subscribe = (listener: () => void) => {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

export function Toasts() {
  const shown = useSyncExternalStore(subscribe, () => toasts)
  return (
    <section className="toasts" aria-label={texts.toasts.label} aria-live="polite" aria-relevant="additions">
      {shown.map(({ id, text, tone }) => (
        <div key={id} className={`toast toast-${tone}`}>
          <p>{text}</p>
          <IconButton label={texts.toasts.dismiss} onClick={() => dismiss(id)}>
            <Icon name="close" />
          </IconButton>
        </div>
      ))}
    </section>
  )
}

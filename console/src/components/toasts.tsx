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

/** Shows a notification. An error stays until the user dismisses it. */
export function notify(text: string, tone: Toast['tone'] = 'good'): void {
  last += 1
  const id = last
  change([...toasts, { id, text, tone }].slice(-maxToasts))
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

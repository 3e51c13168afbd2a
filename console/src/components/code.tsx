/** A text with a button that copies it. */
import { texts } from '../texts.ts'
import { Button } from './button.tsx'
import { notify } from './toasts.tsx'

async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text)
    notify(texts.copy.copied)
  } catch {
    notify(texts.copy.failed, 'bad')
  }
}

export function CopyButton({ text, label = texts.copy.copy }: { text: string; label?: string }) {
  return (
    <Button small onClick={() => copy(text)}>
      {label}
    </Button>
  )
}

/** Shows `shown`, for example a text with a hidden password. The button copies `text`. */
export function Code({ text, shown = text, label }: { text: string; shown?: string; label: string }) {
  return (
    <div className="code">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: keyboard users must be able to scroll it */}
      <section className="code-scroll" tabIndex={0} aria-label={label}>
        <pre>
          <code>{shown}</code>
        </pre>
      </section>
      <CopyButton text={text} />
    </div>
  )
}

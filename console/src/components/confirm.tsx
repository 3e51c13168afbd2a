/** A dialog that says what an action does before it runs. */
import type { ReactNode } from 'react'
import { texts } from '../texts.ts'
import { Button } from './button.tsx'
import { ChangeError } from './change-error.tsx'
import { Dialog } from './dialog.tsx'

type Props = {
  open: boolean
  onClose: () => void
  title: string
  what: ReactNode
  /** The text of the button that does it. */
  action: string
  danger?: boolean
  /** What must be done first, for example a name that must be typed. */
  isReady?: boolean
  change: { isPending: boolean; error: Error | null }
  onConfirm: () => void
  children?: ReactNode
}

export function Confirm({
  open,
  onClose,
  title,
  what,
  action,
  danger,
  isReady = true,
  change,
  onConfirm,
  children,
}: Props) {
  return (
    <Dialog open={open} onClose={onClose} title={title} description={what}>
      <form
        className="stack"
        onSubmit={event => {
          event.preventDefault()
          if (isReady && !change.isPending) onConfirm()
        }}
      >
        {children}
        <ChangeError error={change.error} />
        <div className="dialog-end">
          <Button onClick={onClose}>{texts.dialog.cancel}</Button>
          <Button
            type="submit"
            variant={danger ? 'danger' : 'primary'}
            disabled={!isReady}
            busy={change.isPending && texts.dialog.working}
          >
            {action}
          </Button>
        </div>
      </form>
    </Dialog>
  )
}

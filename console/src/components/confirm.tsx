/** A dialog that describes an action, and runs the action if the user confirms. */
import type { ReactNode } from 'react'
import { texts } from '../texts.ts'
import { Button } from './button.tsx'
import { ChangeError } from './change-error.tsx'
import { Dialog } from './dialog.tsx'

type Props = {
  open: boolean
  onClose: () => void
  title: string
  description: ReactNode
  /** Text of the button that runs the action. */
  action: string
  danger?: boolean
  /** Whether the button is enabled. For example, a dialog can require that the user types a name first. */
  isReady?: boolean
  change: { isPending: boolean; error: Error | null }
  onConfirm: () => void
  children?: ReactNode
}

export function Confirm({
  open,
  onClose,
  title,
  description,
  action,
  danger,
  isReady = true,
  change,
  onConfirm,
  children,
}: Props) {
  return (
    <Dialog open={open} onClose={onClose} title={title} description={description}>
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

/** A modal dialog. The focus stays inside. Esc closes the dialog, and the focus returns to the previous element. */
import { Dialog as Base } from '@base-ui/react/dialog'
import type { ReactNode } from 'react'

type Props = {
  open: boolean
  onClose: () => void
  title: string
  description?: ReactNode
  children: ReactNode
  className?: string
  /** Shows the title only to screen readers, for dialogs that begin with an input. */
  titleHidden?: boolean
}

export function Dialog({ open, onClose, title, description, children, className = '', titleHidden = false }: Props) {
  return (
    <Base.Root open={open} onOpenChange={next => next || onClose()}>
      <Base.Portal>
        <Base.Backdrop className="backdrop" />
        <Base.Popup className={`dialog ${className}`}>
          <Base.Title className={titleHidden ? 'visually-hidden' : undefined}>{title}</Base.Title>
          {description !== undefined && <Base.Description className="quiet">{description}</Base.Description>}
          {children}
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  )
}

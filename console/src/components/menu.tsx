/** A menu that a button opens. The user can control it with arrow keys, first letters and Esc. */
import { Menu as Base } from '@base-ui/react/menu'
import { Fragment, type ReactNode } from 'react'
import { Icon } from './icons.tsx'

type MenuItem = {
  key: string
  text: string
  onChoose: () => void
  /** Whether this item is the current choice. Undefined if the item is not part of a choice. */
  chosen?: boolean
  danger?: boolean
  disabled?: boolean
  /** Whether the menu shows a line above the item. */
  separated?: boolean
}

type Props = { label: string; trigger: ReactNode; triggerClass: string; items: readonly MenuItem[]; title?: string }

export function Menu({ label, trigger, triggerClass, items, title }: Props) {
  const canBeChosen = items.some(({ chosen }) => chosen !== undefined)
  return (
    <Base.Root modal={false}>
      <Base.Trigger className={triggerClass} aria-label={label}>
        {trigger}
      </Base.Trigger>
      <Base.Portal>
        <Base.Positioner sideOffset={6} align="start" collisionPadding={8} className="menu-positioner">
          <Base.Popup className="menu-popup">
            {title !== undefined && (
              <div className="menu-title" aria-hidden="true">
                {title}
              </div>
            )}
            {items.map(({ key, text, onChoose, chosen, danger, disabled, separated }) => (
              <Fragment key={key}>
                {separated && <Base.Separator className="menu-line" />}
                <Base.Item
                  className={danger ? 'menu-item menu-item-danger' : 'menu-item'}
                  disabled={disabled ?? false}
                  onClick={onChoose}
                  aria-current={chosen === true ? 'true' : undefined}
                >
                  {canBeChosen && <span className="menu-check">{chosen && <Icon name="check" size={14} />}</span>}
                  {text}
                </Base.Item>
              </Fragment>
            ))}
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  )
}

/** The editor of an allowlist: a line for each rule, and a button that adds the address of the user. */
import { useQuery } from '@tanstack/react-query'
import { useApi } from '../api/accounts.ts'
import { clientAddressQuery } from '../api/queries.ts'
import { type Draft, faultOf, mostRules, withAddress } from '../lib/allowlist.ts'
import { texts } from '../texts.ts'
import { Button, IconButton } from './button.tsx'
import { Icon } from './icons.tsx'

type Props = { drafts: readonly Draft[]; onChange: (drafts: Draft[]) => void; showFaults: boolean }

export function Rules({ drafts, onChange, showFaults }: Props) {
  const clientAddress = useQuery(clientAddressQuery(useApi())).data?.ip_address
  const isIpv4 = clientAddress !== undefined && faultOf(clientAddress) === undefined
  const change = (key: number, next: Partial<Draft>) =>
    onChange(drafts.map(draft => (draft.key === key ? { ...draft, ...next } : draft)))
  const add = () =>
    onChange([...drafts, { key: Math.max(-1, ...drafts.map(({ key }) => key)) + 1, cidr: '', label: '' }])
  return (
    <div className="stack-small">
      {drafts.length === 0 && <p className="notice tone-warning">{texts.access.none}</p>}
      <ul className="stack-small">
        {drafts.map(({ key, cidr, label }, index) => {
          const fault = showFaults ? faultOf(cidr) : undefined
          return (
            <li key={key} className="rule">
              <input
                className="input mono"
                aria-label={texts.access.address(index + 1)}
                aria-invalid={fault !== undefined || undefined}
                aria-describedby={fault === undefined ? undefined : `fault-${key}`}
                placeholder="203.0.113.0/24"
                value={cidr}
                maxLength={18}
                onChange={event => change(key, { cidr: event.target.value })}
              />
              <input
                className="input"
                aria-label={texts.access.label(index + 1)}
                placeholder={texts.access.labelPlaceholder}
                value={label}
                maxLength={100}
                onChange={event => change(key, { label: event.target.value })}
              />
              <IconButton
                label={texts.access.remove(index + 1)}
                onClick={() => onChange(drafts.filter(draft => draft.key !== key))}
              >
                <Icon name="trash" />
              </IconButton>
              {fault !== undefined && (
                <p className="field-error rule-fault" id={`fault-${key}`} role="alert">
                  {fault}
                </p>
              )}
            </li>
          )
        })}
      </ul>
      <div className="row">
        <Button onClick={add} disabled={drafts.length >= mostRules}>
          {texts.access.add}
        </Button>
        {isIpv4 && (
          <Button onClick={() => onChange(withAddress(drafts, clientAddress, texts.access.myAddressLabel))}>
            {texts.access.addMyAddress(clientAddress)}
          </Button>
        )}
      </div>
      {clientAddress !== undefined && !isIpv4 && <p className="field-hint">{texts.access.notIpv4(clientAddress)}</p>}
    </div>
  )
}

/** The page that shows how to connect: address, roles, and snippets for programs. */
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { useApi } from '../../api/accounts.ts'
import { connectionQuery, type Role, roles } from '../../api/queries.ts'
import { Code, CopyButton } from '../../components/code.tsx'
import { Check, Field } from '../../components/field.tsx'
import { Empty, Result } from '../../components/state.tsx'
import { hiddenPassword, type SnippetName, snippet, snippetNames } from '../../lib/snippets.ts'
import { type Target, useTarget } from '../../lib/target.ts'
import { useOwner } from '../../lib/use-owner.ts'
import { texts } from '../../texts.ts'

const caFile = 'espalier-ca.pem'

function Snippets({ target }: { target: Target }) {
  const api = useApi()
  const [role, setRole] = useState<Role>('application')
  const [name, setName] = useState<SnippetName>('psql')
  const [isShown, setIsShown] = useState(false)
  const query = useQuery(connectionQuery(api, target, role))
  return (
    <section className="card" aria-labelledby="snippets">
      <div className="card-head">
        <h2 id="snippets">{texts.connect.title}</h2>
      </div>
      <div className="card-body stack">
        <div className="grid-2">
          <Field label={texts.connect.program}>
            {attributes => (
              <select
                {...attributes}
                className="input"
                value={name}
                onChange={event => setName(snippetNames.find(one => one === event.target.value) ?? 'psql')}
              >
                {snippetNames.map(one => (
                  <option key={one} value={one}>
                    {texts.connect.programs[one]}
                  </option>
                ))}
              </select>
            )}
          </Field>
          <Field label={texts.connect.role} hint={texts.connect.roleHints[role]}>
            {attributes => (
              <select
                {...attributes}
                className="input"
                value={role}
                onChange={event => setRole(roles.find(one => one === event.target.value) ?? 'application')}
              >
                {roles.map(one => (
                  <option key={one} value={one}>
                    {texts.connect.roles[one]}
                  </option>
                ))}
              </select>
            )}
          </Field>
        </div>
        <Result query={query} what={texts.connect.title}>
          {({ connection, domain }) => {
            if (connection === undefined) return <Empty title={texts.connect.notYet} />
            const host = connection.host ?? domain ?? connection.external_ip_address ?? ''
            const full = { ...connection, host, ca: caFile }
            const shown = isShown ? full : { ...full, password: hiddenPassword }
            return (
              <>
                <Code
                  label={texts.connect.programs[name]}
                  text={snippet(name, full)}
                  shown={snippet(name, shown).replaceAll(encodeURIComponent(hiddenPassword), hiddenPassword)}
                />
                <Check label={texts.connect.show} checked={isShown} onChange={setIsShown} />
                <p className="quiet">
                  {texts.connect.ca}{' '}
                  <a href="/managed/v1/ca.pem" download={caFile}>
                    {texts.connect.download}
                  </a>
                </p>
                <dl className="facts">
                  {[
                    [texts.connect.host, host],
                    [texts.connect.port, String(connection.port)],
                    [texts.connect.database, connection.database],
                    [texts.connect.user, connection.username],
                  ].map(([label = '', value = '']) => (
                    <div key={label} className="fact">
                      <dt>{label}</dt>
                      <dd className="mono wrap">{value}</dd>
                    </div>
                  ))}
                </dl>
                <div>
                  <CopyButton text={connection.password} label={texts.connect.copyPassword} />
                </div>
              </>
            )
          }}
        </Result>
      </div>
    </section>
  )
}

/** Warns if no client can connect: the database is suspended, or its allowlist is empty. */
function Obstacles({ target }: { target: Target }) {
  const owner = useOwner(target)
  if (owner === undefined) return null
  if (owner.status === 'suspended') return <p className="notice tone-warning">{texts.connect.suspended}</p>
  if (owner.ip_allowlist.rules.length === 0)
    return (
      <p className="notice tone-warning">
        {target.branchId === undefined ? texts.connect.closed : texts.connect.branchClosed}{' '}
        <Link to="/databases/$id/access" params={{ id: target.id }}>
          {texts.access.open}
        </Link>
      </p>
    )
  return null
}

export default function Connect() {
  const target = useTarget()
  return (
    <div className="stack">
      <Obstacles target={target} />
      <Snippets target={target} />
    </div>
  )
}

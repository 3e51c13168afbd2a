/** The page that edits the allowlist of a database. */
import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { useApi } from '../../api/accounts.ts'
import { read, type Schemas } from '../../api/client.ts'
import { databaseQuery } from '../../api/queries.ts'
import { Button } from '../../components/button.tsx'
import { ChangeError } from '../../components/change-error.tsx'
import { Rules } from '../../components/rules.tsx'
import { changesOf, draftsOf, faultOf, isSame, rulesOf } from '../../lib/allowlist.ts'
import { useChange } from '../../lib/change.ts'
import { texts } from '../../texts.ts'

type Database = Schemas['ManagedDatabase']

function AccessForm({ database }: { database: Database }) {
  const { id, ip_allowlist: allowlist } = database
  const [drafts, setDrafts] = useState(() => draftsOf(allowlist.rules))
  const [showFaults, setShowFaults] = useState(false)
  const save = useChange({
    act: (api, rules: { cidr: string; label?: string }[]) =>
      read(api.PATCH('/managed/v1/databases/{id}', { params: { path: { id } }, body: { ip_allowlist: { rules } } })),
    stale: [['database', id], ['databases']],
    done: texts.access.saved,
  })
  const isChanged = !isSame(allowlist.rules, drafts)
  const { added, removed } = changesOf(allowlist.rules, drafts)
  const submit = () => {
    setShowFaults(true)
    if (drafts.every(({ cidr }) => faultOf(cidr) === undefined)) save.mutate(rulesOf(drafts))
  }
  return (
    <section className="card" aria-labelledby="access">
      <div className="card-head">
        <h2 id="access">{texts.access.title}</h2>
        <span className="badge badge-plain">{texts.access.states[allowlist.state ?? ''] ?? allowlist.state}</span>
      </div>
      <div className="card-body stack">
        <p className="quiet">{texts.access.what}</p>
        <Rules drafts={drafts} onChange={setDrafts} showFaults={showFaults} />
        <ChangeError error={save.error} />
        {isChanged && (
          <div className="row-spread">
            <p className="quiet" role="status">
              {texts.access.changes(added.length, removed.length)}
            </p>
            <div className="row">
              <Button onClick={() => setDrafts(draftsOf(allowlist.rules))}>{texts.access.discard}</Button>
              <Button variant="primary" onClick={submit} busy={save.isPending && texts.access.saving}>
                {texts.access.save}
              </Button>
            </div>
          </div>
        )}
      </div>
    </section>
  )
}

export default function Access() {
  const { id } = useParams({ from: '/databases/$id' })
  const { data } = useQuery(databaseQuery(useApi(), id))
  // If another client changes the rules, the new key replaces the form.
  return data === undefined ? null : <AccessForm key={JSON.stringify(data.ip_allowlist.rules)} database={data} />
}

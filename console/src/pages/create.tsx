/** The page that creates a database. */
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { useApi } from '../api/accounts.ts'
import { read, type Schemas } from '../api/client.ts'
import { pgVersionsQuery, regionsQuery, sizesQuery } from '../api/queries.ts'
import { Button } from '../components/button.tsx'
import { ChangeError } from '../components/change-error.tsx'
import { Check, Field } from '../components/field.tsx'
import { Rules } from '../components/rules.tsx'
import { SizeChoice } from '../components/sizes.tsx'
import { PageTitle, Result } from '../components/state.tsx'
import { type Draft, faultOf, rulesOf } from '../lib/allowlist.ts'
import { useChange } from '../lib/change.ts'
import { fieldFault } from '../lib/field-fault.ts'
import { texts } from '../texts.ts'

type Input = Schemas['CreateManagedDatabaseInput']

/** Checks a name by the API's rule, before the page sends it. Returns undefined if the name is valid. */
const nameFault = (name: string): string | undefined =>
  /^[a-z][a-z0-9]{0,49}$/.test(name) ? undefined : name === '' ? texts.create.nameEmpty : texts.create.nameInvalid

type Choices = {
  sizes: Schemas['Size'][]
  regions: Schemas['ManagedRegion'][]
  versions: Schemas['ManagedPGVersion'][]
}

function CreateForm({ sizes, regions, versions }: Choices) {
  const navigate = useNavigate()
  const active = sizes.filter(({ status }) => status === 'active')
  const [name, setName] = useState('')
  const [label, setLabel] = useState('')
  const [region, setRegion] = useState(regions[0]?.region ?? '')
  const [size, setSize] = useState(active[0]?.name ?? '')
  const [version, setVersion] = useState(versions.find(one => one.default)?.version ?? '')
  const [drafts, setDrafts] = useState<readonly Draft[]>([])
  const [withMcp, setWithMcp] = useState(false)
  const [isDurable, setIsDurable] = useState(false)
  const [showFaults, setShowFaults] = useState(false)
  const create = useChange({
    act: (api, body: Input) => read(api.POST('/managed/v1/databases', { body })),
    stale: [['databases']],
    done: texts.create.begun(name),
    onDone: ({ id }) => navigate({ to: '/databases/$id', params: { id } }),
  })
  /** Returns the API's error for a field, if the field still has the value that the API refused. */
  const refusalOf = (field: 'name' | 'display_name', value: string) =>
    create.variables?.[field] === value ? fieldFault(create.error, field) : undefined
  const submit = (event: FormEvent) => {
    event.preventDefault()
    setShowFaults(true)
    if (nameFault(name) !== undefined || drafts.some(({ cidr }) => faultOf(cidr) !== undefined)) return
    create.mutate({
      ...{ name, region, size, pg_version: version as Input['pg_version'], ip_allowlist: { rules: rulesOf(drafts) } },
      ...(label.trim() === '' ? {} : { display_name: label.trim() }),
      ...(withMcp ? { services: [{ service_type: 'mcp' as const }] } : {}),
      ...(isDurable ? { backup: { durable: true } } : {}),
    })
  }
  return (
    <form className="stack form" onSubmit={submit} noValidate>
      <section className="card card-body stack" aria-label={texts.create.basics}>
        <div className="grid-2">
          <Field
            label={texts.create.name}
            hint={texts.create.nameHint}
            error={showFaults ? (nameFault(name) ?? refusalOf('name', name)) : undefined}
          >
            {attributes => (
              <input
                {...attributes}
                className="input mono"
                value={name}
                maxLength={50}
                autoComplete="off"
                spellCheck={false}
                onChange={event => setName(event.target.value)}
              />
            )}
          </Field>
          <Field
            label={texts.create.label}
            hint={texts.create.labelHint}
            error={refusalOf('display_name', label.trim())}
          >
            {attributes => (
              <input
                {...attributes}
                className="input"
                value={label}
                maxLength={25}
                onChange={event => setLabel(event.target.value)}
              />
            )}
          </Field>
          <Field label={texts.create.region}>
            {attributes => (
              <select
                {...attributes}
                className="input"
                value={region}
                onChange={event => setRegion(event.target.value)}
              >
                {regions.map(one => (
                  <option key={one.region}>{one.region}</option>
                ))}
              </select>
            )}
          </Field>
          <Field label={texts.create.version} hint={texts.create.versionHint}>
            {attributes => (
              <select
                {...attributes}
                className="input"
                value={version}
                onChange={event => setVersion(event.target.value)}
              >
                {versions.map(one => (
                  <option key={one.version} value={one.version}>
                    {texts.create.versionOf(one.version, one.pgvector)}
                  </option>
                ))}
              </select>
            )}
          </Field>
        </div>
      </section>
      <section className="card card-body stack" aria-label={texts.create.size}>
        <SizeChoice sizes={active} value={size} onChange={setSize} legend={texts.create.size} />
      </section>
      <section className="card card-body stack" aria-labelledby="allowlist">
        <div>
          <h2 id="allowlist">{texts.access.title}</h2>
          <p className="quiet">{texts.access.what}</p>
        </div>
        <Rules drafts={drafts} onChange={setDrafts} showFaults={showFaults} />
      </section>
      <section className="card card-body stack" aria-label={texts.create.options}>
        <Check label={texts.create.mcp} hint={texts.create.mcpHint} checked={withMcp} onChange={setWithMcp} />
        <Check
          label={texts.create.durable}
          hint={texts.create.durableHint}
          checked={isDurable}
          onChange={setIsDurable}
        />
      </section>
      <ChangeError error={create.error} />
      <div>
        <Button variant="primary" type="submit" busy={create.isPending && texts.create.creating}>
          {texts.create.submit}
        </Button>
      </div>
    </form>
  )
}

export default function Create() {
  const api = useApi()
  const sizes = useQuery(sizesQuery(api))
  const regions = useQuery(regionsQuery(api))
  const versions = useQuery(pgVersionsQuery(api))
  return (
    <div className="page">
      <div className="page-head">
        <PageTitle>{texts.create.title}</PageTitle>
      </div>
      <Result query={sizes} what={texts.create.what}>
        {allSizes => (
          <Result query={regions} what={texts.create.what}>
            {allRegions => (
              <Result query={versions} what={texts.create.what}>
                {allVersions => <CreateForm sizes={allSizes} regions={allRegions} versions={allVersions} />}
              </Result>
            )}
          </Result>
        )}
      </Result>
    </div>
  )
}

/** The page of services: state, addresses, tokens and settings. */
import { useQuery } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { useApi } from '../../api/accounts.ts'
import { type Api, answer, read } from '../../api/client.ts'
import { descriptionQuery } from '../../api/queries.ts'
import { Button } from '../../components/button.tsx'
import { ChangeError } from '../../components/change-error.tsx'
import { Code, CopyButton } from '../../components/code.tsx'
import { Confirm } from '../../components/confirm.tsx'
import { Check, Field } from '../../components/field.tsx'
import { Rules } from '../../components/rules.tsx'
import { SchemaFields } from '../../components/schema-fields.tsx'
import { Empty, Result } from '../../components/state.tsx'
import { TryIt } from '../../components/try-it.tsx'
import { draftsOf, faultOf, rulesOf } from '../../lib/allowlist.ts'
import { useChange } from '../../lib/change.ts'
import { bodyOf, type FormField, fieldsOf, valuesOf } from '../../lib/schema-form.ts'
import {
  type Service,
  type ServiceInput,
  type ServiceSnippet,
  type ServiceType,
  serviceSnippet,
  serviceSnippets,
  servicesAfter,
  serviceTypes,
  settingsOf,
  settingsSchema,
  tokenOf,
  tokenVariable,
} from '../../lib/services.ts'
import { hiddenPassword, shellWord } from '../../lib/snippets.ts'
import { useTarget } from '../../lib/target.ts'
import { useOwner } from '../../lib/use-owner.ts'
import { texts } from '../../texts.ts'

const own = texts.services
const tones: Record<string, string> = { running: 'good', pending: 'busy', failed: 'bad' }

/**
 * Adds or replaces a service; removes it if `next` is undefined. A PATCH replaces the complete list of services, so the
 * function reads the list first. The ETag makes the API refuse the PATCH if the database has changed since that read.
 */
async function changeService(api: Api, id: string, type: ServiceType, next: ServiceInput | undefined) {
  const path = { id }
  const { data, response } = await answer(api.GET('/managed/v1/databases/{id}', { params: { path } }))
  const tag = response.headers.get('etag')
  const header = tag === null ? {} : { 'If-Match': tag }
  const body = { services: servicesAfter(data.services ?? [], type, next) }
  return read(api.PATCH('/managed/v1/databases/{id}', { params: { path, header }, body }))
}

type FormProps = {
  id: string
  type: ServiceType
  service: Service | undefined
  fields: readonly FormField[]
  onClose: () => void
}

function ServiceForm({ id, type, service, fields, onClose }: FormProps) {
  const [values, setValues] = useState(() => valuesOf(fields, service === undefined ? {} : settingsOf(service)))
  const [drafts, setDrafts] = useState(() => draftsOf(service?.ip_allowlist?.rules ?? []))
  const [showFaults, setShowFaults] = useState(false)
  const save = useChange({
    act: (api, next: ServiceInput) => changeService(api, id, type, next),
    stale: [['database', id], ['databases']],
    done: own.applying(own.names[type]),
    onDone: onClose,
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    setShowFaults(true)
    if (save.isPending || drafts.some(({ cidr }) => faultOf(cidr) !== undefined)) return
    const settings = { [`${type}_config`]: bodyOf(fields, values) }
    // tsc cannot check the fields, because they come from the API's schema.
    save.mutate({ service_type: type, ...settings, ip_allowlist: { rules: rulesOf(drafts) } } as ServiceInput)
  }
  return (
    <form className="stack" onSubmit={submit}>
      <SchemaFields fields={fields} values={values} onChange={setValues} />
      <fieldset className="group">
        <legend>{own.allowlist}</legend>
        <p className="field-hint">{own.allowlistHint}</p>
        <Rules drafts={drafts} onChange={setDrafts} showFaults={showFaults} />
      </fieldset>
      <ChangeError error={save.error} />
      <div className="row">
        <Button type="submit" variant="primary" busy={save.isPending && texts.access.saving}>
          {service === undefined ? own.add(own.names[type]) : own.save}
        </Button>
        <Button onClick={onClose}>{texts.dialog.cancel}</Button>
      </div>
    </form>
  )
}

function EditService(props: Omit<FormProps, 'fields'>) {
  const query = useQuery(descriptionQuery(useApi()))
  return (
    <Result query={query} what={own.form}>
      {description => {
        const fields = fieldsOf(description, settingsSchema[props.type])
        if (fields === undefined) return <p className="notice tone-warning">{own.noSchema}</p>
        return <ServiceForm {...props} fields={fields} />
      }}
    </Result>
  )
}

function Token({ type, token }: { type: keyof typeof tokenVariable; token: string }) {
  const [isShown, setIsShown] = useState(false)
  const line = (text: string) => `export ${tokenVariable[type]}=${shellWord(text)}`
  return (
    <div className="stack-small">
      <Code label={own.token} text={line(token)} shown={line(isShown ? token : hiddenPassword)} />
      <div className="row">
        <Check label={own.showToken} checked={isShown} onChange={setIsShown} />
        <CopyButton text={token} label={own.copyToken} />
      </div>
    </div>
  )
}

function HowToUse({ type, name, service }: { type: ServiceType; name: string; service: Service }) {
  const programs: readonly ServiceSnippet[] = serviceSnippets[type]
  const [program, setProgram] = useState<ServiceSnippet>(programs[0] ?? 'curl')
  const token = tokenOf(service)
  if (!service.uri) return <p className="quiet">{own.noAddress}</p>
  return (
    <>
      <div className="row-spread">
        <span className="mono wrap">{service.uri}</span>
        <CopyButton text={service.uri} label={own.copyAddress} />
      </div>
      {type !== 'rest' && token !== undefined && <Token type={type} token={token} />}
      <Field label={own.program(own.names[type])}>
        {attributes => (
          <select
            {...attributes}
            className="input"
            value={program}
            onChange={event => setProgram(programs.find(one => one === event.target.value) ?? 'curl')}
          >
            {programs.map(one => (
              <option key={one} value={one}>
                {own.programs[one]}
              </option>
            ))}
          </select>
        )}
      </Field>
      <Code
        label={own.snippet(own.names[type], own.programs[program])}
        text={serviceSnippet(type, program, name, service)}
      />
      <TryIt type={type} name={own.names[type]} service={service} />
      <p className="quiet">
        {own.authority}{' '}
        <a href="/managed/v1/ca.pem" download="espalier-ca.pem">
          {texts.connect.download}
        </a>
      </p>
    </>
  )
}

type CardProps = {
  id: string
  /** Name of the database or branch. */
  name: string
  type: ServiceType
  service: Service | undefined
  canChange: boolean
}

function ServiceCard({ id, name: owner, type, service, canChange }: CardProps) {
  const [isEditing, setIsEditing] = useState(false)
  const [isRemoving, setIsRemoving] = useState(false)
  const name = own.names[type]
  const remove = useChange({
    act: api => changeService(api, id, type, undefined),
    stale: [['database', id], ['databases']],
    done: own.removing(name),
    onDone: () => setIsRemoving(false),
  })
  const state = service?.state ?? ''
  return (
    <section className="card" aria-labelledby={`service-${type}`}>
      <div className="card-head">
        <h2 id={`service-${type}`}>{name}</h2>
        <div className="row">
          {service !== undefined && (
            <span className={`badge tone-${tones[state] ?? 'quiet'}`}>{own.states[state] ?? state}</span>
          )}
          {canChange && !isEditing && (
            <Button small onClick={() => setIsEditing(true)}>
              {service === undefined ? own.addTo(name) : own.change(name)}
            </Button>
          )}
          {canChange && service !== undefined && (
            <Button small variant="danger" onClick={() => setIsRemoving(true)}>
              {own.remove(name)}
            </Button>
          )}
        </div>
      </div>
      <div className="card-body stack">
        <p className="quiet">{own.what[type]}</p>
        {service?.message !== undefined && (
          <p className={`notice wrap ${state === 'failed' ? 'tone-bad' : 'tone-warning'}`}>{service.message}</p>
        )}
        {service?.ip_allowlist?.rules.length === 0 && !isEditing && (
          <p className="notice tone-warning">{canChange ? own.closed : own.branchClosed}</p>
        )}
        {isEditing && <EditService id={id} type={type} service={service} onClose={() => setIsEditing(false)} />}
        {service !== undefined && !isEditing && <HowToUse type={type} name={owner} service={service} />}
      </div>
      <Confirm
        open={isRemoving}
        onClose={() => setIsRemoving(false)}
        title={own.removeTitle(name)}
        description={own.removeWhat}
        action={own.remove(name)}
        danger
        change={remove}
        onConfirm={() => remove.mutate()}
      />
    </section>
  )
}

export default function Services() {
  const target = useTarget()
  const owner = useOwner(target)
  if (owner === undefined) return null
  const serviceOf = (type: ServiceType) => owner.services?.find(({ service_type: one }) => one === type)
  const isBranch = target.branchId !== undefined
  const shown = isBranch ? serviceTypes.filter(type => serviceOf(type) !== undefined) : serviceTypes
  if (shown.length === 0) return <Empty title={own.branchNone}>{own.branchWhat}</Empty>
  return (
    <div className="stack form">
      {isBranch && <p className="quiet">{own.branchWhat}</p>}
      {shown.map(type => (
        <ServiceCard
          key={type}
          id={target.id}
          name={owner.name}
          type={type}
          service={serviceOf(type)}
          canChange={!isBranch}
        />
      ))}
    </div>
  )
}

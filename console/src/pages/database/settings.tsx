/** The page of settings: name, protection, size, passwords, restart, suspension and deletion. */
import { useQuery } from '@tanstack/react-query'
import { useNavigate, useParams } from '@tanstack/react-router'
import { type ReactNode, useState } from 'react'
import { useApi } from '../../api/accounts.ts'
import { read, type Schemas } from '../../api/client.ts'
import { backupsQuery, branchesQuery, databaseQuery, sizesQuery } from '../../api/queries.ts'
import { Button } from '../../components/button.tsx'
import { ChangeError } from '../../components/change-error.tsx'
import { Confirm } from '../../components/confirm.tsx'
import { Check, Field } from '../../components/field.tsx'
import { SizeChoice } from '../../components/sizes.tsx'
import { Result } from '../../components/state.tsx'
import { useChange } from '../../lib/change.ts'
import { bytes } from '../../lib/format.ts'
import { lossesOf } from '../../lib/losses.ts'
import { texts } from '../../texts.ts'

type Database = Schemas['ManagedDatabase']
const own = texts.settings

function Section({ title, children, what }: { title: string; what?: string; children: ReactNode }) {
  const id = title.toLowerCase().replaceAll(' ', '-')
  return (
    <section className="card" aria-labelledby={id}>
      <div className="card-head">
        <h2 id={id}>{title}</h2>
      </div>
      <div className="card-body stack">
        {what !== undefined && <p className="quiet">{what}</p>}
        {children}
      </div>
    </section>
  )
}

const staleOf = (id: string) => [['database', id], ['databases']]

function General({ database }: { database: Database }) {
  const { id, display_name: label, deletion_protection: isProtected = false, backup } = database
  const [name, setName] = useState(label ?? '')
  const save = useChange({
    act: (api, body: Schemas['UpdateManagedDatabaseInput']) =>
      read(api.PATCH('/managed/v1/databases/{id}', { params: { path: { id } }, body })),
    stale: staleOf(id),
    done: own.saved,
  })
  return (
    <Section title={own.general}>
      <form
        className="row-end"
        onSubmit={event => {
          event.preventDefault()
          save.mutate({ display_name: name.trim() === '' ? null : name.trim() })
        }}
      >
        <Field label={texts.create.label} hint={texts.create.labelHint}>
          {attributes => (
            <input
              {...attributes}
              className="input"
              value={name}
              maxLength={25}
              onChange={event => setName(event.target.value)}
            />
          )}
        </Field>
        <Button type="submit" disabled={name.trim() === (label ?? '')}>
          {own.rename}
        </Button>
      </form>
      <Check
        label={own.protection}
        hint={own.protectionHint}
        checked={isProtected}
        disabled={save.isPending}
        onChange={deletion_protection => save.mutate({ deletion_protection })}
      />
      <Check
        label={texts.create.durable}
        hint={texts.create.durableHint}
        checked={backup?.durable ?? false}
        disabled={save.isPending}
        onChange={durable => save.mutate({ backup: { durable } })}
      />
      <ChangeError error={save.error} />
    </Section>
  )
}

function Resize({ database }: { database: Database }) {
  const { id, size: current } = database
  const sizes = useQuery(sizesQuery(useApi()))
  const [size, setSize] = useState(current)
  const [isOpen, setIsOpen] = useState(false)
  const resize = useChange({
    act: (api, name: string) =>
      read(api.POST('/managed/v1/databases/{id}/size', { params: { path: { id } }, body: { size: name } })),
    stale: staleOf(id),
    done: own.resizing(size),
    onDone: () => setIsOpen(false),
  })
  return (
    <Section title={own.size} what={own.sizeWhat}>
      <Result query={sizes} what={own.size}>
        {allSizes => (
          <SizeChoice
            legend={own.sizeOf(current)}
            sizes={allSizes.filter(({ status }) => status === 'active')}
            value={size}
            onChange={setSize}
          />
        )}
      </Result>
      <div>
        <Button disabled={size === current} onClick={() => setIsOpen(true)}>
          {own.resize}
        </Button>
      </div>
      <Confirm
        open={isOpen}
        onClose={() => setIsOpen(false)}
        title={own.resizeTitle(database.name, current, size)}
        description={own.resizeEffect}
        action={own.resize}
        change={resize}
        onConfirm={() => resize.mutate(size)}
      />
    </Section>
  )
}

const roles = ['app', 'app_read_only', 'admin'] as const

function Passwords({ database: { id, name, status } }: { database: Database }) {
  const [role, setRole] = useState<(typeof roles)[number]>()
  const rotate = useChange({
    act: (api, one: (typeof roles)[number]) =>
      read(
        api.POST('/managed/v1/databases/{id}/roles/{role}/rotate-password', { params: { path: { id, role: one } } }),
      ),
    stale: staleOf(id),
    done: own.rotating,
    onDone: () => setRole(undefined),
  })
  return (
    <Section title={own.passwords} what={own.passwordsWhat}>
      <div className="row">
        {roles.map(one => (
          <Button key={one} disabled={status !== 'available'} onClick={() => setRole(one)}>
            {own.rotate(one)}
          </Button>
        ))}
      </div>
      <Confirm
        open={role !== undefined}
        onClose={() => setRole(undefined)}
        title={own.rotateTitle(role ?? '', name)}
        description={own.rotateEffect}
        action={own.rotateAction}
        change={rotate}
        onConfirm={() => role !== undefined && rotate.mutate(role)}
      />
    </Section>
  )
}

const actions = ['restart', 'suspend', 'resume'] as const
type Action = (typeof actions)[number]

function Running({ database: { id, name, status } }: { database: Database }) {
  const [action, setAction] = useState<Action>()
  const run = useChange({
    act: (api, one: Action) => read(api.POST(`/managed/v1/databases/{id}/${one}`, { params: { path: { id } } })),
    stale: staleOf(id),
    done: (_, one) => own.running[one].begun(name),
    onDone: () => setAction(undefined),
  })
  const offered = actions.filter(one => (one === 'resume') === (status === 'suspended'))
  const chosen = own.running[action ?? 'restart']
  return (
    <Section title={own.runningTitle}>
      <div className="row">
        {offered.map(one => (
          <Button key={one} onClick={() => setAction(one)}>
            {own.running[one].action}
          </Button>
        ))}
      </div>
      <Confirm
        open={action !== undefined}
        onClose={() => setAction(undefined)}
        title={chosen.title(name)}
        description={chosen.effect}
        action={chosen.action}
        change={run}
        onConfirm={() => action !== undefined && run.mutate(action)}
      />
    </Section>
  )
}

function Deletion({ database }: { database: Database }) {
  const { id, name, deletion_protection: isProtected, backup } = database
  const api = useApi()
  const navigate = useNavigate()
  const [isOpen, setIsOpen] = useState(false)
  const [typed, setTyped] = useState('')
  const [keepsBackups, setKeepsBackups] = useState(true)
  const branches = useQuery({ ...branchesQuery(api, id), enabled: isOpen })
  const backups = useQuery({ ...backupsQuery(api, id), enabled: isOpen })
  const remove = useChange({
    act: (client, force: boolean) =>
      read(
        client.DELETE('/managed/v1/databases/{id}', {
          params: { path: { id }, query: { force, keep_backups: keepsBackups } },
        }),
      ),
    stale: staleOf(id),
    done: own.deleting(name),
    onDone: () => navigate({ to: '/' }),
  })
  const count = branches.data?.length
  const losses = lossesOf({
    ...{ used: database.storage_used, branches: count, backups: backups.data?.length, keepsBackups },
    services: database.services?.length ?? 0,
  })
  return (
    <Section title={own.deletion} what={isProtected ? own.protected : own.deletionWhat}>
      <div>
        <Button variant="danger" disabled={isProtected === true} onClick={() => setIsOpen(true)}>
          {own.delete}
        </Button>
      </div>
      <Confirm
        open={isOpen}
        onClose={() => setIsOpen(false)}
        title={own.deleteTitle(name)}
        description={own.losses}
        action={own.delete}
        danger
        isReady={typed === name && count !== undefined}
        change={remove}
        onConfirm={() => remove.mutate((count ?? 0) > 0)}
      >
        <ul className="bullets">
          {losses.map(text => (
            <li key={text}>{text}</li>
          ))}
        </ul>
        <p>{backup?.durable ? own.loss.durable : own.loss.final}</p>
        <Check label={own.keepBackups} hint={own.keepBackupsHint} checked={keepsBackups} onChange={setKeepsBackups} />
        <Field label={own.typeName(name)}>
          {attributes => (
            <input
              {...attributes}
              className="input mono"
              value={typed}
              maxLength={50}
              autoComplete="off"
              spellCheck={false}
              onChange={event => setTyped(event.target.value)}
            />
          )}
        </Field>
      </Confirm>
    </Section>
  )
}

export default function Settings() {
  const { id } = useParams({ from: '/databases/$id' })
  const { data } = useQuery(databaseQuery(useApi(), id))
  if (data === undefined) return null
  return (
    <div className="stack">
      <p className="quiet">
        {texts.settings.facts(data.storage_used === undefined ? '–' : bytes(data.storage_used), data.id)}
      </p>
      <General database={data} />
      <Resize key={data.size} database={data} />
      <Passwords database={data} />
      <Running database={data} />
      <Deletion database={data} />
    </div>
  )
}

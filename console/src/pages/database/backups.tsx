/** The page of backups: a list, a timeline, and restores in place. */
import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { useApi } from '../../api/accounts.ts'
import { read, type Schemas } from '../../api/client.ts'
import { backupsQuery, databaseQuery, windowQuery } from '../../api/queries.ts'
import { Button } from '../../components/button.tsx'
import { Confirm } from '../../components/confirm.tsx'
import { Field } from '../../components/field.tsx'
import { Icon } from '../../components/icons.tsx'
import { Menu } from '../../components/menu.tsx'
import { Ago, Empty, Result, Status } from '../../components/state.tsx'
import { useChange } from '../../lib/change.ts'
import { bytes, moment } from '../../lib/format.ts'
import { cutOf, isReachable, timelineOf } from '../../lib/timeline.ts'
import { texts } from '../../texts.ts'

type Backup = Schemas['Backup']
type Window = Schemas['RecoveryWindow']
const own = texts.backups

/** The backup or the time to which a restore returns the database. */
type Target = { backup_id: string } | { target_time: string }

function RestoreDialog({ id, target, at, onClose }: { id: string; target: Target; at: number; onClose: () => void }) {
  const { data: database } = useQuery(databaseQuery(useApi(), id))
  const [typed, setTyped] = useState('')
  const name = database?.name ?? ''
  const restore = useChange({
    act: api => read(api.POST('/managed/v1/databases/{id}/restore', { params: { path: { id } }, body: target })),
    stale: [['database', id], ['databases'], ['backups']],
    done: own.restoring(name),
    onDone: onClose,
  })
  return (
    <Confirm
      open
      onClose={onClose}
      title={own.restoreTitle(name, moment(at))}
      description={own.restoreWhat}
      action={own.restore}
      danger
      isReady={typed === name && name !== ''}
      change={restore}
      onConfirm={() => restore.mutate()}
    >
      <Field label={texts.settings.typeName(name)}>
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
  )
}

function Timeline({ backups, window }: { backups: readonly Backup[]; window: Window | undefined }) {
  const { from, to, points, reachable } = timelineOf(backups, window, Date.now())
  const percent = (share: number) => `${share * 100}%`
  return (
    <figure className="timeline" aria-label={own.line(points.length, reachable.length > 0)}>
      <div className="timeline-track" aria-hidden="true">
        {reachable.map(part => (
          <span
            key={part.from}
            className="timeline-part"
            style={{ left: percent(part.from), width: percent(part.to - part.from) }}
          />
        ))}
        {points.map(({ id, at, position }) => (
          <span key={id} className="timeline-mark" title={moment(at)} style={{ left: percent(position) }} />
        ))}
      </div>
      <figcaption className="row-spread quiet">
        <span>{moment(from)}</span>
        <span>{reachable.length > 0 ? own.legendBoth : own.legend}</span>
        <span>{moment(to)}</span>
      </figcaption>
    </figure>
  )
}

/** Returns the value of a `datetime-local` input for a time, in the time zone of the browser. */
const localText = (at: number): string => {
  const date = new Date(at - new Date(at).getTimezoneOffset() * 60_000)
  return date.toISOString().slice(0, 19)
}

function Moment({ window, choose }: { window: Window; choose: (target: Target, at: number) => void }) {
  const latest = Date.parse(window.latest_time ?? '')
  const [text, setText] = useState(() => localText(latest))
  const at = Date.parse(text)
  const fault = Number.isNaN(at) || !isReachable(window, at) ? own.notReachable : undefined
  return (
    <form
      className="row-end"
      onSubmit={event => {
        event.preventDefault()
        if (fault === undefined) choose({ target_time: new Date(at).toISOString() }, at)
      }}
    >
      <Field label={own.moment} hint={own.momentHint} error={fault}>
        {attributes => (
          <input
            {...attributes}
            className="input"
            type="datetime-local"
            step={1}
            value={text}
            onChange={event => setText(event.target.value)}
          />
        )}
      </Field>
      <Button type="submit" disabled={fault !== undefined}>
        {own.restoreMoment}
      </Button>
    </form>
  )
}

const textIn = (value: unknown): string => (typeof value === 'string' ? value : '')

type ListProps = {
  backups: readonly Backup[]
  choose: (target: Target, at: number) => void
  verify: (id: string) => void
  remove: (backup: Backup) => void
}

function List({ backups, choose, verify, remove }: ListProps) {
  return (
    <div className="table-frame">
      <table className="table">
        <caption className="visually-hidden">{texts.database.tab.backups}</caption>
        <thead>
          <tr>
            <th scope="col">{own.columns.at}</th>
            <th scope="col">{texts.overview.columns.state}</th>
            {[own.columns.kind, own.columns.purpose, own.columns.size, own.columns.verified].map(text => (
              <th key={text} scope="col" className="wide">
                {text}
              </th>
            ))}
            <th scope="col">
              <span className="visually-hidden">{texts.branches.actions}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {backups.map(backup => {
            const { id, name, status, kind, purpose = '', metadata } = backup
            const isComplete = status === 'completed'
            const size = metadata.size_bytes
            const verified = textIn(metadata.verification)
            const items = [
              {
                ...{ key: 'restore', text: own.restoreTo, disabled: !isComplete },
                onChoose: () => choose({ backup_id: id }, cutOf(backup)),
              },
              { key: 'verify', text: own.verify, disabled: !isComplete, onChoose: () => verify(id) },
              { key: 'delete', text: own.delete, danger: true, separated: true, onChoose: () => remove(backup) },
            ]
            return (
              <tr key={id}>
                <th scope="row" className="cell-plain">
                  <Ago at={new Date(cutOf(backup)).toISOString()} />
                  <p className="quiet mono wrap">{name}</p>
                </th>
                <td>
                  <Status status={status} />
                  {textIn(metadata.error) !== '' && <p className="field-error">{textIn(metadata.error)}</p>}
                </td>
                <td className="wide">{kind}</td>
                <td className="wide">{purpose}</td>
                <td className="wide numeric">{typeof size === 'number' ? bytes(size) : '–'}</td>
                <td className="wide">{verified === '' ? '–' : (own.verification[verified] ?? verified)}</td>
                <td className="cell-end">
                  <Menu
                    label={own.actionsOf(moment(cutOf(backup)))}
                    triggerClass="button button-plain button-icon"
                    trigger={<Icon name="more" />}
                    items={items}
                  />
                </td>
              </tr>
            )
          })}
        </tbody>
      </table>
    </div>
  )
}

function DeleteDialog({ backup, onClose }: { backup: Backup; onClose: () => void }) {
  const remove = useChange({
    act: api => read(api.DELETE('/managed/v1/backups/{id}', { params: { path: { id: backup.id } } })),
    stale: [['backups']],
    done: own.deleting,
    onDone: onClose,
  })
  return (
    <Confirm
      open
      onClose={onClose}
      title={own.deleteTitle(moment(cutOf(backup)))}
      description={own.deleteWhat}
      action={own.delete}
      danger
      change={remove}
      onConfirm={() => remove.mutate()}
    />
  )
}

function useBackUp(id: string) {
  return useChange({
    act: (api, kind: 'hot' | 'durable') =>
      read(api.POST('/managed/v1/databases/{id}/backup', { params: { path: { id } }, body: { kind } })),
    stale: [['backups'], ['database', id]],
    done: own.begun,
  })
}

export default function Backups() {
  const { id } = useParams({ from: '/databases/$id' })
  const api = useApi()
  const query = useQuery(backupsQuery(api, id))
  const { data: database } = useQuery(databaseQuery(api, id))
  const isDurable = database?.backup?.durable ?? false
  const { data: window } = useQuery({ ...windowQuery(api, id), enabled: isDurable })
  const backUp = useBackUp(id)
  const verify = useChange({
    act: (client, backup: string) =>
      read(client.POST('/managed/v1/backups/{id}/verify', { params: { path: { id: backup } } })),
    stale: [['backups']],
    done: own.verifying,
  })
  const [target, setTarget] = useState<{ target: Target; at: number }>()
  const [deleted, setDeleted] = useState<Backup>()
  const choose = (next: Target, at: number) => setTarget({ target: next, at })
  const fault = backUp.error ?? verify.error
  return (
    <div className="stack">
      <section className="card" aria-labelledby="backups">
        <div className="card-head">
          <h2 id="backups">{texts.database.tab.backups}</h2>
          <div className="row">
            <Button
              variant="primary"
              busy={backUp.isPending && texts.dialog.working}
              onClick={() => backUp.mutate('hot')}
            >
              {own.backUp}
            </Button>
            {isDurable && <Button onClick={() => backUp.mutate('durable')}>{own.backUpDurable}</Button>}
          </div>
        </div>
        {fault !== null && (
          <p className="notice tone-bad" role="alert">
            {fault.message}
          </p>
        )}
        <Result query={query} what={texts.database.tab.backups}>
          {backups =>
            backups.length === 0 ? (
              <Empty title={own.emptyTitle}>{own.emptyWhat}</Empty>
            ) : (
              <>
                <div className="card-body">
                  <Timeline backups={backups} window={window} />
                </div>
                <List backups={backups} choose={choose} verify={verify.mutate} remove={setDeleted} />
              </>
            )
          }
        </Result>
      </section>
      <section className="card" aria-labelledby="moment">
        <div className="card-head">
          <h2 id="moment">{own.anyMoment}</h2>
        </div>
        <div className="card-body">
          {window?.latest_time != null ? (
            <Moment key={window.earliest_time} window={window} choose={choose} />
          ) : (
            <p className="quiet">{isDurable ? own.noWindow : own.notDurable}</p>
          )}
        </div>
      </section>
      {target !== undefined && <RestoreDialog id={id} {...target} onClose={() => setTarget(undefined)} />}
      {deleted !== undefined && <DeleteDialog backup={deleted} onClose={() => setDeleted(undefined)} />}
    </div>
  )
}

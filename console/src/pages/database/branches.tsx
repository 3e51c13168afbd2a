/** The page of branches: a tree, and dialogs that create and delete branches. */
import { useQuery } from '@tanstack/react-query'
import { useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { useApi } from '../../api/accounts.ts'
import { read, type Schemas } from '../../api/client.ts'
import { branchesQuery, databaseQuery } from '../../api/queries.ts'
import { BranchLink } from '../../components/branch-link.tsx'
import { Button } from '../../components/button.tsx'
import { ChangeError } from '../../components/change-error.tsx'
import { Confirm } from '../../components/confirm.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { Field } from '../../components/field.tsx'
import { Icon } from '../../components/icons.tsx'
import { Menu } from '../../components/menu.tsx'
import { Ago, Empty, Result, Status } from '../../components/state.tsx'
import { marksOf, namesOf, titleOf } from '../../lib/branches.ts'
import { useChange } from '../../lib/change.ts'
import { fieldFault } from '../../lib/field-fault.ts'
import { moment } from '../../lib/format.ts'
import { treeOf } from '../../lib/tree.ts'
import { texts } from '../../texts.ts'

type Branch = Schemas['Branch']
const own = texts.branches
const paramsOf = ({ id, database_id: database }: Branch) => ({ id: database, branch: id })

const expiries = [0, 1, 7, 30] as const
const dayMs = 86_400_000

type CreateProps = { id: string; branches: readonly Branch[]; from: string; onClose: () => void }

function CreateDialog({ id, branches, from, onClose }: CreateProps) {
  const [label, setLabel] = useState('')
  const [source, setSource] = useState(from)
  const [days, setDays] = useState(0)
  const create = useChange({
    act: (api, body: Schemas['CreateBranchRequest']) =>
      read(api.POST('/managed/v1/databases/{id}/branches', { params: { path: { id } }, body })),
    stale: [['branches', id], ['database', id], ['databases']],
    done: own.begun,
    onDone: onClose,
  })
  const nameOf = namesOf(branches)
  const isTaken = branches.some(branch => titleOf(branch) === label.trim())
  const submit = () =>
    create.mutate({
      ...(label.trim() === '' ? {} : { display_name: label.trim() }),
      ...(source === '' ? {} : { source_branch_id: source }),
      ...(days === 0 ? {} : { expires_at: new Date(Date.now() + days * dayMs).toISOString() }),
    })
  return (
    <Dialog open onClose={onClose} title={own.create} description={own.createWhat}>
      <form
        className="stack"
        onSubmit={event => {
          event.preventDefault()
          if (!create.isPending) submit()
        }}
      >
        <Field
          label={own.label}
          hint={isTaken ? own.labelTaken : texts.create.labelHint}
          error={fieldFault(create.error, 'display_name')}
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
        <Field label={own.source} error={fieldFault(create.error, 'source_branch_id')}>
          {attributes => (
            <select {...attributes} className="input" value={source} onChange={event => setSource(event.target.value)}>
              <option value="">{own.sourceDatabase}</option>
              {branches
                .filter(({ status }) => status === 'available')
                .map(branch => (
                  <option key={branch.id} value={branch.id}>
                    {nameOf(branch)}
                  </option>
                ))}
            </select>
          )}
        </Field>
        <Field label={own.expiry} hint={own.expiryHint} error={fieldFault(create.error, 'expires_at')}>
          {attributes => (
            <select
              {...attributes}
              className="input"
              value={days}
              onChange={event => setDays(Number(event.target.value))}
            >
              {expiries.map(count => (
                <option key={count} value={count}>
                  {own.expiryOf(count)}
                </option>
              ))}
            </select>
          )}
        </Field>
        <ChangeError error={create.error} />
        <div className="dialog-end">
          <Button onClick={onClose}>{texts.dialog.cancel}</Button>
          <Button type="submit" variant="primary" busy={create.isPending && texts.dialog.working}>
            {own.create}
          </Button>
        </div>
      </form>
    </Dialog>
  )
}

type DeleteProps = { branch: Branch; name: string; onClose: () => void }

function DeleteDialog({ branch, name, onClose }: DeleteProps) {
  const id = branch.database_id
  const remove = useChange({
    act: api =>
      read(
        api.DELETE('/managed/v1/databases/{id}/branches/{branch_id}', {
          params: { path: { id, branch_id: branch.id } },
        }),
      ),
    stale: [['branches', id], ['database', id], ['databases']],
    done: own.deleting(name),
    onDone: onClose,
  })
  return (
    <Confirm
      open
      onClose={onClose}
      title={own.deleteTitle(name)}
      description={own.deleteWhat}
      action={own.delete}
      danger
      change={remove}
      onConfirm={() => remove.mutate()}
    />
  )
}

type Opened = { kind: 'create'; from: string } | { kind: 'delete'; branch: Branch; name: string }

function Tree({ branches, open }: { branches: readonly Branch[]; open: (opened: Opened) => void }) {
  const navigate = useNavigate()
  const [nameOf, shortIdOf] = [namesOf(branches), marksOf(branches)]
  return (
    <div className="table-frame">
      <table className="table">
        <caption className="visually-hidden">{texts.database.tab.branches}</caption>
        <thead>
          <tr>
            <th scope="col">{texts.overview.columns.name}</th>
            <th scope="col">{texts.overview.columns.state}</th>
            <th scope="col" className="wide">
              {own.created}
            </th>
            <th scope="col" className="wide">
              {own.expires}
            </th>
            <th scope="col">
              <span className="visually-hidden">{own.actions}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {treeOf(branches).map(({ node, depth }) => (
            <tr key={node.id}>
              <th scope="row" className="branch-name">
                <BranchLink branch={node} shortId={shortIdOf(node)} indent={depth * 18} />
              </th>
              <td>
                <Status status={node.status} />
              </td>
              <td className="wide">
                <Ago at={node.created_at} />
              </td>
              <td className="wide">
                {node.expires_at ? (
                  <span title={moment(Date.parse(node.expires_at))}>
                    <Ago at={node.expires_at} />
                  </span>
                ) : (
                  texts.time.never
                )}
              </td>
              <td className="cell-end">
                <Menu
                  label={own.actionsOf(nameOf(node))}
                  triggerClass="button button-plain button-icon"
                  trigger={<Icon name="more" />}
                  items={[
                    {
                      key: 'connect',
                      text: texts.connect.title,
                      disabled: node.status !== 'available',
                      onChoose: () =>
                        navigate({ to: '/databases/$id/branches/$branch/connect', params: paramsOf(node) }),
                    },
                    {
                      key: 'child',
                      text: own.child,
                      disabled: node.status !== 'available',
                      onChoose: () => open({ kind: 'create', from: node.id }),
                    },
                    {
                      key: 'delete',
                      text: own.delete,
                      danger: true,
                      separated: true,
                      onChoose: () => open({ kind: 'delete', branch: node, name: nameOf(node) }),
                    },
                  ]}
                />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

export default function Branches() {
  const { id } = useParams({ from: '/databases/$id' })
  const api = useApi()
  const query = useQuery(branchesQuery(api, id))
  const { data: database } = useQuery(databaseQuery(api, id))
  const [opened, setOpened] = useState<Opened>()
  const close = () => setOpened(undefined)
  const create = (
    <Button variant="primary" onClick={() => setOpened({ kind: 'create', from: '' })}>
      {own.create}
    </Button>
  )
  return (
    <section className="card" aria-labelledby="branches">
      <div className="card-head">
        <h2 id="branches">{texts.database.tab.branches}</h2>
        {query.data !== undefined && query.data.length > 0 && (
          <div className="row">
            {database?.branch_limit != null && (
              <span className="quiet">{own.limit(database.branch_count ?? 0, database.branch_limit)}</span>
            )}
            {create}
          </div>
        )}
      </div>
      <Result query={query} what={texts.database.tab.branches}>
        {branches => (
          <>
            {branches.length === 0 ? (
              <Empty title={own.emptyTitle} action={create}>
                {own.emptyWhat}
              </Empty>
            ) : (
              <Tree branches={branches} open={setOpened} />
            )}
            {opened?.kind === 'create' && (
              <CreateDialog id={id} branches={branches} from={opened.from} onClose={close} />
            )}
          </>
        )}
      </Result>
      {opened?.kind === 'delete' && <DeleteDialog branch={opened.branch} name={opened.name} onClose={close} />}
    </section>
  )
}

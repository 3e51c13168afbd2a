/** The page of the SQL editor. Statements are read-only until the user allows writes. */
import { useQuery } from '@tanstack/react-query'
import { lazy, Suspense, useRef, useState } from 'react'
import { useAccount, useApi } from '../../api/accounts.ts'
import { branchesQuery, schemaQuery } from '../../api/queries.ts'
import type { SqlRequest } from '../../api/run-sql.ts'
import { Button, IconButton } from '../../components/button.tsx'
import { Check, Field } from '../../components/field.tsx'
import { Icon } from '../../components/icons.tsx'
import { Menu } from '../../components/menu.tsx'
import { SavedQueries } from '../../components/saved-queries.tsx'
import type { ChosenText } from '../../components/sql-editor.tsx'
import { SqlResults } from '../../components/sql-results.tsx'
import { Loading } from '../../components/state.tsx'
import { namesOf } from '../../lib/branches.ts'
import { type SqlTabs, useSqlTabs } from '../../lib/sql-tabs.ts'
import { type Target, useTarget } from '../../lib/target.ts'
import { useSql } from '../../lib/use-sql.ts'
import { texts } from '../../texts.ts'

const SqlEditor = lazy(() => import('../../components/sql-editor.tsx'))
const own = texts.sql

const limits = [1000, 10_000, 100_000, 1_000_000] as const
const timeoutSeconds = 60
const shownInMenu = 60
const writers = ['application', 'admin'] as const
type Writer = (typeof writers)[number]

function TabRow({ id, tabs }: { id: string; tabs: SqlTabs }) {
  return (
    <div className="row-spread">
      <nav className="tabs tabs-small" aria-label={own.tabs}>
        {tabs.tabs.map((tab, index) => (
          <span key={tab.id} className="tab-closable">
            <button
              type="button"
              className="tab"
              aria-current={tab.id === tabs.current ? 'page' : undefined}
              onClick={() => tabs.show(tab.id)}
            >
              {own.tab(index + 1)}
            </button>
            <IconButton label={own.close(index + 1)} onClick={() => tabs.close(tab.id)}>
              <Icon name="close" size={12} />
            </IconButton>
          </span>
        ))}
        <IconButton label={own.newTab} onClick={() => tabs.add()}>
          <Icon name="plus" />
        </IconButton>
      </nav>
      <div className="row">
        <SavedQueries
          database={id}
          text={tabs.tabs.find(tab => tab.id === tabs.current)?.text ?? ''}
          onOpen={text => tabs.add(text)}
        />
        <Menu
          label={own.history}
          triggerClass="button button-small"
          trigger={own.history}
          items={
            tabs.history.length === 0
              ? [{ key: 'none', text: own.noHistory, disabled: true, onChoose: () => {} }]
              : tabs.history.slice(0, 20).map(text => ({
                  key: text,
                  text: text.replaceAll(/\s+/g, ' ').slice(0, shownInMenu),
                  onChoose: () => tabs.add(text),
                }))
          }
        />
      </div>
    </div>
  )
}

type Settings = { branch: string; isWriting: boolean; writer: Writer; limit: number }
type SettingsProps = { target: Target; settings: Settings; change: (next: Partial<Settings>) => void }

type BranchFieldProps = { id: string; branch: string; change: SettingsProps['change'] }

/** Selects where a statement runs: on the database or on one of its branches. */
function BranchField({ id, branch, change }: BranchFieldProps) {
  const { data: branches = [] } = useQuery(branchesQuery(useApi(), id))
  const nameOf = namesOf(branches)
  return (
    <Field label={own.target}>
      {attributes => (
        <select
          {...attributes}
          className="input"
          value={branch}
          onChange={event => change({ branch: event.target.value })}
        >
          <option value="">{own.targetDatabase}</option>
          {branches
            .filter(({ status }) => status === 'available')
            .map(one => (
              <option key={one.id} value={one.id}>
                {nameOf(one)}
              </option>
            ))}
        </select>
      )}
    </Field>
  )
}

function Options({ target, settings: { branch, isWriting, writer, limit }, change }: SettingsProps) {
  return (
    <div className="sql-options">
      {target.branchId === undefined && <BranchField id={target.id} branch={branch} change={change} />}
      <Field label={own.role}>
        {attributes => (
          <select
            {...attributes}
            className="input"
            value={isWriting ? writer : ''}
            disabled={!isWriting}
            onChange={event => change({ writer: event.target.value === 'admin' ? 'admin' : 'application' })}
          >
            {!isWriting && <option value="">{texts.connect.roles.application_read_only}</option>}
            {isWriting &&
              writers.map(one => (
                <option key={one} value={one}>
                  {texts.connect.roles[one]}
                </option>
              ))}
          </select>
        )}
      </Field>
      <Field label={own.limit}>
        {attributes => (
          <select
            {...attributes}
            className="input"
            value={limit}
            onChange={event => change({ limit: Number(event.target.value) })}
          >
            {limits.map(one => (
              <option key={one} value={one}>
                {own.limitOf(one)}
              </option>
            ))}
          </select>
        )}
      </Field>
      <Check
        label={own.write}
        hint={own.writeHint}
        checked={isWriting}
        onChange={checked => change({ isWriting: checked })}
      />
    </div>
  )
}

export default function Sql() {
  const target = useTarget()
  const account = useAccount()
  const tabs = useSqlTabs(account, target)
  const [settings, setSettings] = useState<Settings>({
    ...{ branch: '', isWriting: false, writer: 'application', limit: 10_000 },
  })
  const { run, start, cancel } = useSql(account)
  const chosen = useRef<() => ChosenText>(undefined)
  const { data: schema = {} } = useQuery(schemaQuery(account, target))
  const tab = tabs.tabs.find(one => one.id === tabs.current)
  const execute = ({ text, charactersBefore }: ChosenText, explain?: SqlRequest['explain']) => {
    if (text.trim() === '') return
    tabs.remember(text)
    const { branch, isWriting, writer, limit } = settings
    const request: SqlRequest = {
      ...{ text, mode: isWriting ? 'write' : 'read', max_rows: limit, timeout_seconds: timeoutSeconds },
      ...(isWriting ? { role: writer } : {}),
      ...(explain === undefined ? {} : { explain }),
    }
    start(request, branch === '' ? target : { id: target.id, branchId: branch }, charactersBefore)
  }
  const executeChosen = (explain?: SqlRequest['explain']) => {
    const found = chosen.current?.()
    if (found !== undefined) execute(found, explain)
  }
  return (
    <div className="stack">
      <section className="card card-body stack-small" aria-label={own.editor}>
        <TabRow id={target.id} tabs={tabs} />
        <Suspense fallback={<Loading what={own.editor} />}>
          {tab !== undefined && (
            <SqlEditor
              key={tab.id}
              text={tab.text}
              schema={schema}
              chosen={chosen}
              onChange={text => tabs.write(tab.id, text)}
              onRun={found => execute(found)}
            />
          )}
        </Suspense>
        <div className="row">
          {run.isRunning ? (
            <Button onClick={cancel}>{own.cancel}</Button>
          ) : (
            <Button variant="primary" onClick={() => executeChosen()}>
              {own.run}
            </Button>
          )}
          <Button onClick={() => executeChosen('plan')}>{own.explain}</Button>
          <Button onClick={() => executeChosen('analyze')}>{own.analyze}</Button>
          <span className="quiet">{own.runHint}</span>
        </div>
        <Options target={target} settings={settings} change={next => setSettings({ ...settings, ...next })} />
      </section>
      {(run.isRunning || run.results.length > 0 || run.error !== undefined) && (
        <section className="card card-body stack-small" aria-label={own.results}>
          {run.isRunning && <p role="status">{own.running}</p>}
          {run.error !== undefined && (
            <p className="notice tone-bad" role="alert">
              {run.error}
            </p>
          )}
          <SqlResults results={run.results} isPlan={run.isPlan} charactersBefore={run.charactersBefore} />
        </section>
      )}
    </div>
  )
}

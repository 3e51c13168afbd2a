/** The command palette: a combobox of databases, branches, pages and commands. Ctrl-K or Cmd-K opens it. */
import { useQueries, useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { type KeyboardEvent, useEffect, useId, useState } from 'react'
import { type Account, showAccount, useAccounts, useApi } from '../api/accounts.ts'
import type { Schemas } from '../api/client.ts'
import { branchesQuery, databasesQuery } from '../api/queries.ts'
import { namesOf } from '../lib/branches.ts'
import { best } from '../lib/search.ts'
import { branchTabs, databaseTabs } from '../lib/tabs.ts'
import { useTarget } from '../lib/target.ts'
import { setTheme, themes } from '../lib/theme.ts'
import { texts } from '../texts.ts'
import { Dialog } from './dialog.tsx'

type Database = Schemas['ManagedDatabase']
type Command = { key: string; text: string; group: string; run: () => void }

const maxResults = 12

const isShortcut = (event: globalThis.KeyboardEvent): boolean =>
  (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === 'k'

/** Calls `onPress` when the user presses the shortcut anywhere in the console. */
export function useShortcut(onPress: () => void): void {
  useEffect(() => {
    const listen = (event: globalThis.KeyboardEvent) => {
      if (!isShortcut(event)) return
      event.preventDefault()
      onPress()
    }
    document.addEventListener('keydown', listen)
    return () => document.removeEventListener('keydown', listen)
  }, [onPress])
}

/** The maximum number of databases whose branches the palette reads: the current one, then those changed last. */
const maxDatabases = 30

function useBranchCommands(databases: readonly Database[]): { branches: Command[]; pages: Command[] } {
  const navigate = useNavigate()
  const api = useApi()
  const { id: current } = useTarget()
  const searched = databases
    .filter(({ branch_count: count }) => count !== 0)
    .toSorted((a, b) => Number(b.id === current) - Number(a.id === current) || (a.updated_at < b.updated_at ? 1 : -1))
    .slice(0, maxDatabases)
  const results = useQueries({ queries: searched.map(({ id }) => branchesQuery(api, id)) })
  const group = texts.palette.branches
  const all = searched.flatMap(({ id, name }, index) => {
    const branches = results[index]?.data ?? []
    const nameOf = namesOf(branches)
    return branches.map(branch => {
      const text = `${name} / ${nameOf(branch)}`
      const params = { id, branch: branch.id }
      const run = () => navigate({ to: '/databases/$id/branches/$branch', params })
      const pages = branchTabs.map((tab): Command => {
        const open = () => navigate({ to: `/databases/$id/branches/$branch/${tab}`, params })
        return { key: `${branch.id} ${tab}`, text: `${text} / ${texts.database.tab[tab]}`, group, run: open }
      })
      return { branch: { key: branch.id, text, group, run }, pages }
    })
  })
  return { branches: all.map(({ branch }) => branch), pages: all.flatMap(({ pages }) => pages) }
}

function useCommands(): Command[] {
  const navigate = useNavigate()
  const { list, current } = useAccounts()
  const { data: databases = [] } = useQuery(databasesQuery(useApi()))
  const { branches, pages } = useBranchCommands(databases)
  const accountCommand = (account: Account): Command => ({
    key: `account ${account.id}`,
    text: texts.account.menu(account.label),
    group: texts.palette.actions,
    run: () => showAccount(account),
  })
  return [
    ...databases.map(({ id, name }) => ({
      key: id,
      text: name,
      group: texts.palette.databases,
      run: () => navigate({ to: '/databases/$id', params: { id } }),
    })),
    { key: 'overview', text: texts.navigation.overview, group: texts.palette.pages, run: () => navigate({ to: '/' }) },
    {
      key: 'operations',
      text: texts.navigation.operations,
      group: texts.palette.pages,
      run: () => navigate({ to: '/operations' }),
    },
    { key: 'audit', text: texts.navigation.audit, group: texts.palette.pages, run: () => navigate({ to: '/audit' }) },
    { key: 'new', text: texts.navigation.create, group: texts.palette.actions, run: () => navigate({ to: '/new' }) },
    ...themes.map(theme => ({
      key: `theme ${theme}`,
      text: `${texts.theme.menu}: ${texts.theme[theme]}`,
      group: texts.palette.actions,
      run: () => setTheme(theme),
    })),
    ...list.filter(account => account !== current).map(accountCommand),
    ...branches,
    ...databases.flatMap(({ id, name }) =>
      databaseTabs.map(tab => ({
        key: `${id} ${tab}`,
        text: `${name} / ${texts.database.tab[tab]}`,
        group: texts.palette.databases,
        run: () => navigate({ to: `/databases/$id/${tab}`, params: { id } }),
      })),
    ),
    ...pages,
  ]
}

function Commands({ onClose }: { onClose: () => void }) {
  const [typed, setTyped] = useState('')
  const [index, setIndex] = useState(0)
  const id = useId()
  const idOf = (key: string) => `${id}-${key}`.replaceAll(' ', '-')
  const found = best(useCommands(), ({ text }) => text, typed, maxResults)
  const chosen = found[Math.min(index, found.length - 1)]
  const chosenId = chosen === undefined ? undefined : idOf(chosen.key)
  const run = (command: Command | undefined) => {
    if (command === undefined) return
    onClose()
    command.run()
  }
  const onKeyDown = (event: KeyboardEvent) => {
    const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0
    if (step !== 0) {
      event.preventDefault()
      setIndex((Math.min(index, found.length - 1) + step + found.length) % Math.max(1, found.length))
    }
    if (event.key === 'Enter') {
      event.preventDefault()
      run(chosen)
    }
  }
  useEffect(() => {
    if (chosenId !== undefined) document.getElementById(chosenId)?.scrollIntoView({ block: 'nearest' })
  }, [chosenId])
  return (
    <>
      <input
        className="palette-input"
        role="combobox"
        aria-label={texts.palette.label}
        aria-expanded="true"
        aria-controls={idOf('list')}
        aria-activedescendant={chosenId}
        aria-autocomplete="list"
        placeholder={texts.palette.placeholder}
        value={typed}
        maxLength={100}
        onChange={event => {
          setTyped(event.target.value)
          setIndex(0)
        }}
        onKeyDown={onKeyDown}
      />
      <div className="palette-list" role="listbox" aria-label={texts.palette.label} id={idOf('list')}>
        {found.map(command => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the input has the focus and handles the keys
          <div
            key={command.key}
            id={idOf(command.key)}
            className="palette-item"
            role="option"
            tabIndex={-1}
            aria-selected={command === chosen}
            onClick={() => run(command)}
          >
            <span className="wrap">{command.text}</span>
            <span className="quiet nowrap">{command.group}</span>
          </div>
        ))}
      </div>
      <p className="palette-end" role="status">
        {found.length === 0 ? texts.palette.none : texts.palette.hint}
      </p>
    </>
  )
}

export function Palette({ open, onClose }: { open: boolean; onClose: () => void }) {
  return (
    <Dialog open={open} onClose={onClose} title={texts.palette.label} titleHidden className="palette">
      <Commands onClose={onClose} />
    </Dialog>
  )
}

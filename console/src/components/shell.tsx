/** The frame of every page: navigation, account menu, theme menu and command palette. */
import { Link, Outlet, useRouterState } from '@tanstack/react-router'
import { useCallback, useEffect, useRef, useState } from 'react'
import { logOut, showAccount, startAdding, useAccount, useAccounts } from '../api/accounts.ts'
import { useEvents, useFollowing } from '../api/events.ts'
import { useAskBeforeLeaving } from '../lib/staged.ts'
import { setTheme, themes, useTheme } from '../lib/theme.ts'
import { texts } from '../texts.ts'
import { Boundary } from './boundary.tsx'
import { IconButton } from './button.tsx'
import { Icon, type IconName, Logo } from './icons.tsx'
import { Menu } from './menu.tsx'
import { Palette, useShortcut } from './palette.tsx'

const navigation = [
  { to: '/', text: texts.navigation.overview, icon: 'overview' },
  { to: '/operations', text: texts.navigation.operations, icon: 'operations' },
  { to: '/audit', text: texts.navigation.audit, icon: 'audit' },
] as const satisfies { to: string; text: string; icon: IconName }[]

function AccountMenu() {
  const { list, current } = useAccounts()
  const account = useAccount()
  return (
    <Menu
      label={texts.account.menu(account.label)}
      triggerClass="nav-link button-account"
      trigger={
        <>
          <Icon name="user" />
          <span className="wrap">{account.label}</span>
        </>
      }
      title={texts.account.switchTo}
      items={[
        ...list.map(one => ({
          key: one.id,
          text: one.label,
          chosen: one === current,
          onChoose: () => showAccount(one),
        })),
        { key: 'add', text: texts.account.add, separated: true, onChoose: startAdding },
        {
          key: 'out',
          text: texts.account.logOut,
          onChoose: () => void logOut(account),
        },
      ]}
    />
  )
}

function ThemeMenu() {
  const theme = useTheme()
  return (
    <Menu
      label={texts.theme.menu}
      triggerClass="nav-link button-account"
      trigger={
        <>
          <Icon name="theme" />
          <span>{texts.theme.menu}</span>
        </>
      }
      items={themes.map(one => ({
        key: one,
        text: texts.theme[one],
        chosen: one === theme,
        onChoose: () => setTheme(one),
      }))}
    />
  )
}

function Following() {
  const following = useFollowing()
  const what = {
    connecting: texts.following.connectingWhat,
    live: texts.following.liveWhat,
    polling: texts.following.pollingWhat,
  }[following]
  return (
    <p className="following" title={what}>
      <span className={`dot dot-${following}`} aria-hidden="true" />
      {texts.following[following]}
      <span className="visually-hidden">{what}</span>
    </p>
  )
}

/** Moves the focus to the heading of each new page, so that a screen reader reads the heading. */
function useFocusOnPages(): void {
  const pathname = useRouterState({ select: state => state.resolvedLocation?.pathname })
  const first = useRef(true)
  useEffect(() => {
    if (pathname === undefined) return
    if (first.current) {
      first.current = false
      return
    }
    // After the user has chosen a tab, the focus stays in the row of tabs.
    if (document.activeElement?.closest('[data-keeps-focus]')) return
    document.querySelector<HTMLElement>('[data-page-title]')?.focus({ preventScroll: true })
  }, [pathname])
}

export function Shell() {
  const account = useAccount()
  const [paletteOpen, setPaletteOpen] = useState(false)
  const [navigationOpen, setNavigationOpen] = useState(false)
  const pathname = useRouterState({ select: state => state.location.pathname })
  const resolved = useRouterState({ select: state => state.resolvedLocation?.pathname })
  useEvents(account)
  useAskBeforeLeaving(account)
  useFocusOnPages()
  useShortcut(useCallback(() => setPaletteOpen(true), []))
  // biome-ignore lint/correctness/useExhaustiveDependencies: closes the navigation whenever the page changes
  useEffect(() => setNavigationOpen(false), [pathname])
  const openPalette = () => {
    setNavigationOpen(false)
    setPaletteOpen(true)
  }
  return (
    <>
      <a className="skip" href="#content">
        {texts.skip}
      </a>
      <div className="shell">
        <header className="topbar">
          <IconButton
            label={navigationOpen ? texts.navigation.close : texts.navigation.open}
            aria-expanded={navigationOpen}
            aria-controls="navigation"
            onClick={() => setNavigationOpen(!navigationOpen)}
          >
            <Icon name={navigationOpen ? 'close' : 'menu'} />
          </IconButton>
          <Link to="/" className="brand">
            <Logo />
            {texts.product}
          </Link>
          <IconButton label={texts.palette.open} onClick={openPalette}>
            <Icon name="search" />
          </IconButton>
        </header>
        {navigationOpen && (
          <button
            type="button"
            className="scrim"
            aria-label={texts.navigation.close}
            onClick={() => setNavigationOpen(false)}
          />
        )}
        <aside
          className="sidebar"
          id="navigation"
          aria-label={texts.navigation.panel}
          data-open={navigationOpen}
          onKeyDown={event => event.key === 'Escape' && setNavigationOpen(false)}
        >
          <Link to="/" className="brand" aria-label={texts.product}>
            <Logo />
            {texts.product}
          </Link>
          <button type="button" className="palette-button" onClick={openPalette}>
            <Icon name="search" />
            <span>{texts.palette.open}</span>
            <kbd>Ctrl K</kbd>
          </button>
          <nav aria-label={texts.navigation.label}>
            <ul className="nav-list">
              {navigation.map(({ to, text, icon }) => (
                <li key={to}>
                  <Link to={to} className="nav-link" activeOptions={{ exact: true, includeSearch: false }}>
                    <Icon name={icon} />
                    {text}
                  </Link>
                </li>
              ))}
              <li>
                <a className="nav-link" href="/docs" target="_blank" rel="noreferrer">
                  <Icon name="book" />
                  {texts.navigation.documentation}
                </a>
              </li>
            </ul>
          </nav>
          <div className="sidebar-end">
            <Following />
            <ThemeMenu />
            <AccountMenu />
          </div>
        </aside>
        <main className="main" id="content" tabIndex={-1} data-page={resolved}>
          <Boundary key={pathname}>
            <Outlet />
          </Boundary>
        </main>
      </div>
      <Palette open={paletteOpen} onClose={() => setPaletteOpen(false)} />
    </>
  )
}

/** What surrounds the tabs of a database. */
import { useQuery } from '@tanstack/react-query'
import { Link, Outlet, useParams, useRouterState } from '@tanstack/react-router'
import { useEffect, useRef } from 'react'
import { useApi } from '../../api/accounts.ts'
import { ApiError } from '../../api/errors.ts'
import { databaseQuery } from '../../api/queries.ts'
import { buttonClass } from '../../components/button.tsx'
import { PageTitle, Result, Status } from '../../components/state.tsx'
import { databaseTabs } from '../../lib/tabs.ts'
import { texts } from '../../texts.ts'

function Missing() {
  return (
    <div className="page empty">
      <PageTitle>{texts.database.notFound}</PageTitle>
      <p>{texts.database.notFoundWhat}</p>
      <Link to="/" className={buttonClass('primary')}>
        {texts.errors.home}
      </Link>
    </div>
  )
}

/** On a narrow screen the row is scrolled to the current tab. */
function Tabs({ id }: { id: string }) {
  const pathname = useRouterState({ select: state => state.resolvedLocation?.pathname })
  const row = useRef<HTMLElement>(null)
  // biome-ignore lint/correctness/useExhaustiveDependencies: another page has another tab
  useEffect(() => {
    row.current?.querySelector('[aria-current=page]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' })
  }, [pathname])
  return (
    <nav ref={row} className="tabs" aria-label={texts.database.tabs} data-keeps-focus="">
      {databaseTabs.map(tab => (
        <Link key={tab} to={`/databases/$id/${tab}`} params={{ id }} className="tab">
          {texts.database.tab[tab]}
        </Link>
      ))}
    </nav>
  )
}

export default function DatabaseLayout() {
  const { id } = useParams({ from: '/databases/$id' })
  const query = useQuery(databaseQuery(useApi(), id))
  if (query.error instanceof ApiError && [400, 404].includes(query.error.status)) return <Missing />
  return (
    <div className="page">
      <Result query={query} what={texts.database.what}>
        {database => (
          <>
            <nav className="crumbs" aria-label={texts.database.place}>
              <Link to="/">{texts.database.back}</Link>
              <span aria-hidden="true">/</span>
              <span aria-current="location">{database.name}</span>
            </nav>
            <div className="page-head">
              <div className="row">
                <PageTitle title={database.name}>{database.display_name || database.name}</PageTitle>
                <Status status={database.status} />
                <span className="quiet">
                  {texts.database.facts(database.size, database.region, database.pg_version ?? '')}
                </span>
              </div>
            </div>
            <Tabs id={id} />
            <Outlet />
          </>
        )}
      </Result>
    </div>
  )
}

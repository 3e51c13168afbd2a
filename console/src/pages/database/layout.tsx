/** The frame of a database's pages: name, state and tabs. */
import { useQuery } from '@tanstack/react-query'
import { Link, Outlet, useParams } from '@tanstack/react-router'
import { Fragment } from 'react'
import { useApi } from '../../api/accounts.ts'
import { databaseQuery } from '../../api/queries.ts'
import { buttonClass } from '../../components/button.tsx'
import { isMissing, PageTitle, Result, Status } from '../../components/state.tsx'
import { Tabs } from '../../components/target-tabs.tsx'
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

export default function DatabaseLayout() {
  const { id } = useParams({ from: '/databases/$id' })
  const query = useQuery(databaseQuery(useApi(), id))
  if (isMissing(query.error)) return <Missing />
  return (
    <div className="page">
      <Result query={query} what={texts.database.what}>
        {database => (
          <Fragment key={id}>
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
            <Tabs label={texts.database.tabs}>
              {databaseTabs.map(tab => (
                <Link key={tab} to={`/databases/$id/${tab}`} params={{ id }} className="tab">
                  {texts.database.tab[tab]}
                </Link>
              ))}
            </Tabs>
            <Outlet />
          </Fragment>
        )}
      </Result>
    </div>
  )
}

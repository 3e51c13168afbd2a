/** The frame of a branch's pages: name, state, source, expiry and tabs. */
import { useQuery } from '@tanstack/react-query'
import { Link, Outlet, useParams } from '@tanstack/react-router'
import { Fragment, useEffect } from 'react'
import { useAccount, useApi } from '../../api/accounts.ts'
import type { Schemas } from '../../api/client.ts'
import { branchesQuery, branchQuery, databaseQuery } from '../../api/queries.ts'
import { buttonClass } from '../../components/button.tsx'
import { Ago, isMissing, PageTitle, Result, Status } from '../../components/state.tsx'
import { Tabs, TargetLink } from '../../components/target-tabs.tsx'
import { namesOf } from '../../lib/branches.ts'
import { useStaged } from '../../lib/staged.ts'
import { branchTabs } from '../../lib/tabs.ts'
import { keyOf, type Target } from '../../lib/target.ts'
import { texts } from '../../texts.ts'

type Branch = Schemas['Branch']
const own = texts.branch

function Missing({ target }: { target: Target }) {
  const { clear } = useStaged(useAccount(), target)
  // Discards the staged changes, because they can no longer be committed.
  // biome-ignore lint/correctness/useExhaustiveDependencies: runs once for each branch
  useEffect(clear, [keyOf(target)])
  return (
    <div className="page empty">
      <PageTitle>{own.notFound}</PageTitle>
      <p>{own.notFoundWhat}</p>
      <Link to="/databases/$id/branches" params={{ id: target.id }} className={buttonClass('primary')}>
        {own.all}
      </Link>
    </div>
  )
}

/** Returns why the branch has no pages now. Returns undefined if it has pages. */
function obstacleIn({ status, attention = [] }: Branch): string | undefined {
  if (status === 'creating') return own.creating
  if (status === 'deleting') return own.deleting
  if (status !== 'failed') return undefined
  return own.failed(attention.find(({ condition }) => condition === 'Ready')?.message)
}

function Source({ branch, branches, database }: { branch: Branch; branches: readonly Branch[]; database: string }) {
  const { database_id: id, parent_branch_id: parentId } = branch
  if (parentId == null)
    return (
      <Link to="/databases/$id" params={{ id }}>
        {database}
      </Link>
    )
  const parent = branches.find(one => one.id === parentId)
  if (parent === undefined) return own.deletedSource
  return (
    <Link to="/databases/$id/branches/$branch" params={{ id, branch: parentId }}>
      {namesOf(branches)(parent)}
    </Link>
  )
}

function Head({ branch, branches, database }: { branch: Branch; branches: readonly Branch[]; database: string }) {
  const { database_id: id, name, expires_at: expiresAt, status, size } = branch
  const title = namesOf(branches)(branch)
  return (
    <>
      <nav className="crumbs" aria-label={texts.database.place}>
        <Link to="/">{texts.database.back}</Link>
        <span aria-hidden="true">/</span>
        <Link to="/databases/$id" params={{ id }} className="clip">
          {database}
        </Link>
        <span aria-hidden="true">/</span>
        <Link to="/databases/$id/branches" params={{ id }}>
          {texts.database.tab.branches}
        </Link>
        <span aria-hidden="true">/</span>
        <span aria-current="location" className="clip">
          {name}
        </span>
      </nav>
      <div className="page-head">
        <div className="row">
          <PageTitle title={`${title} · ${database}`}>{title}</PageTitle>
          <Status status={status} />
          <span className="quiet">
            {own.copyOf} <Source branch={branch} branches={branches} database={database} /> · {size}
            {expiresAt && (
              <>
                {' '}
                · {own.expires} <Ago at={expiresAt} />
              </>
            )}
          </span>
        </div>
      </div>
    </>
  )
}

export default function BranchLayout() {
  const { id, branch: branchId } = useParams({ from: '/databases/$id/branches/$branch' })
  const target = { id, branchId }
  const api = useApi()
  const query = useQuery(branchQuery(api, id, branchId))
  const { data: branches = [] } = useQuery(branchesQuery(api, id))
  const { data: database } = useQuery(databaseQuery(api, id))
  if (isMissing(query.error) || query.data?.status === 'deleted') return <Missing target={target} />
  return (
    <div className="page">
      <Result query={query} what={own.what}>
        {branch => {
          const obstacle = obstacleIn(branch)
          const isExpired =
            obstacle === undefined && branch.expires_at != null && Date.parse(branch.expires_at) <= Date.now()
          return (
            <>
              <Head branch={branch} branches={branches} database={database?.name ?? texts.branches.sourceDatabase} />
              {isExpired && <p className="notice tone-warning">{own.expired}</p>}
              {obstacle === undefined ? (
                <Fragment key={branchId}>
                  <Tabs label={own.tabs}>
                    {branchTabs.map(tab => (
                      <TargetLink key={tab} target={target} tab={tab} className="tab">
                        {texts.database.tab[tab]}
                      </TargetLink>
                    ))}
                  </Tabs>
                  <Outlet />
                </Fragment>
              ) : (
                <div
                  className={`notice wrap ${branch.status === 'failed' ? 'tone-bad' : 'tone-warning'}`}
                  role="status"
                >
                  <span>{obstacle}</span>
                  <Link to="/databases/$id/branches" params={{ id }}>
                    {own.all}
                  </Link>
                </div>
              )}
            </>
          )
        }}
      </Result>
    </div>
  )
}

/** The routes of the console. Each page is a separate file, which the browser loads on demand. */
import { createRootRoute, createRoute, createRouter, lazyRouteComponent, redirect } from '@tanstack/react-router'
import { type Outcome, outcomes } from './api/queries.ts'
import { Crash } from './components/boundary.tsx'
import { NotFound } from './components/not-found.tsx'
import { Shell } from './components/shell.tsx'
import { Loading } from './components/state.tsx'
import { texts } from './texts.ts'

type AuditSearch = { database?: string | undefined; outcome?: Outcome | undefined }

const isId = (text: string): boolean => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)

const root = createRootRoute({ component: Shell, notFoundComponent: NotFound })

const overview = createRoute({
  getParentRoute: () => root,
  path: '/',
  component: lazyRouteComponent(() => import('./pages/overview.tsx')),
})

const operations = createRoute({
  getParentRoute: () => root,
  path: '/operations',
  component: lazyRouteComponent(() => import('./pages/operations.tsx')),
})

const audit = createRoute({
  getParentRoute: () => root,
  path: '/audit',
  validateSearch: ({ database, outcome }: Record<string, unknown>): AuditSearch => ({
    database: typeof database === 'string' && isId(database) ? database.toLowerCase() : undefined,
    outcome: outcomes.find(one => one === outcome),
  }),
  component: lazyRouteComponent(() => import('./pages/audit.tsx')),
})

/** Redirect address of the OpenID login. If the user is already logged in, this page redirects to the overview. */
const signedIn = createRoute({
  getParentRoute: () => root,
  path: '/signed-in',
  beforeLoad: () => {
    throw redirect({ to: '/', replace: true })
  },
})

const database = createRoute({
  getParentRoute: () => root,
  path: '/databases/$id',
  component: lazyRouteComponent(() => import('./pages/database/layout.tsx')),
})

const databaseHome = createRoute({
  getParentRoute: () => database,
  path: '/',
  beforeLoad: ({ params }) => {
    throw redirect({ to: '/databases/$id/connect', params, replace: true })
  },
})

const connect = createRoute({
  getParentRoute: () => database,
  path: '/connect',
  component: lazyRouteComponent(() => import('./pages/database/connect.tsx')),
})

const tasks = createRoute({
  getParentRoute: () => database,
  path: '/tasks',
  component: lazyRouteComponent(() => import('./pages/database/tasks.tsx')),
})

const branches = createRoute({
  getParentRoute: () => database,
  path: '/branches',
  component: lazyRouteComponent(() => import('./pages/database/branches.tsx')),
})

const backups = createRoute({
  getParentRoute: () => database,
  path: '/backups',
  component: lazyRouteComponent(() => import('./pages/database/backups.tsx')),
})

const access = createRoute({
  getParentRoute: () => database,
  path: '/access',
  component: lazyRouteComponent(() => import('./pages/database/access.tsx')),
})

const settings = createRoute({
  getParentRoute: () => database,
  path: '/settings',
  component: lazyRouteComponent(() => import('./pages/database/settings.tsx')),
})

const create = createRoute({
  getParentRoute: () => root,
  path: '/new',
  component: lazyRouteComponent(() => import('./pages/create.tsx')),
})

const services = createRoute({
  getParentRoute: () => database,
  path: '/services',
  component: lazyRouteComponent(() => import('./pages/database/services.tsx')),
})

const logs = createRoute({
  getParentRoute: () => database,
  path: '/logs',
  component: lazyRouteComponent(() => import('./pages/database/logs.tsx')),
})

const metrics = createRoute({
  getParentRoute: () => database,
  path: '/metrics',
  component: lazyRouteComponent(() => import('./pages/database/metrics.tsx')),
})

const queries = createRoute({
  getParentRoute: () => database,
  path: '/queries',
  component: lazyRouteComponent(() => import('./pages/database/queries.tsx')),
})

const tables = createRoute({
  getParentRoute: () => database,
  path: '/tables',
  component: lazyRouteComponent(() => import('./pages/database/tables.tsx')),
})

const sql = createRoute({
  getParentRoute: () => database,
  path: '/sql',
  component: lazyRouteComponent(() => import('./pages/database/sql.tsx')),
})

/** Layout of a branch. A branch has only those pages that the API supports for branches. */
const branch = createRoute({
  getParentRoute: () => root,
  path: '/databases/$id/branches/$branch',
  component: lazyRouteComponent(() => import('./pages/database/branch-layout.tsx')),
})

const branchHome = createRoute({
  getParentRoute: () => branch,
  path: '/',
  beforeLoad: ({ params }) => {
    throw redirect({ to: '/databases/$id/branches/$branch/connect', params, replace: true })
  },
})

const branchConnect = createRoute({
  getParentRoute: () => branch,
  path: '/connect',
  component: lazyRouteComponent(() => import('./pages/database/connect.tsx')),
})

const branchServices = createRoute({
  getParentRoute: () => branch,
  path: '/services',
  component: lazyRouteComponent(() => import('./pages/database/services.tsx')),
})

const branchSql = createRoute({
  getParentRoute: () => branch,
  path: '/sql',
  component: lazyRouteComponent(() => import('./pages/database/sql.tsx')),
})

const branchTables = createRoute({
  getParentRoute: () => branch,
  path: '/tables',
  component: lazyRouteComponent(() => import('./pages/database/tables.tsx')),
})

const branchLogs = createRoute({
  getParentRoute: () => branch,
  path: '/logs',
  component: lazyRouteComponent(() => import('./pages/database/logs.tsx')),
})

const branchMetrics = createRoute({
  getParentRoute: () => branch,
  path: '/metrics',
  component: lazyRouteComponent(() => import('./pages/database/metrics.tsx')),
})

const branchQueries = createRoute({
  getParentRoute: () => branch,
  path: '/queries',
  component: lazyRouteComponent(() => import('./pages/database/queries.tsx')),
})

export const router = createRouter({
  routeTree: root.addChildren([
    overview,
    create,
    operations,
    audit,
    signedIn,
    database.addChildren([
      databaseHome,
      connect,
      branches,
      backups,
      access,
      services,
      sql,
      tables,
      logs,
      metrics,
      queries,
      tasks,
      settings,
    ]),
    branch.addChildren([
      branchHome,
      branchConnect,
      branchServices,
      branchSql,
      branchTables,
      branchLogs,
      branchMetrics,
      branchQueries,
    ]),
  ]),
  basepath: '/console',
  defaultPreload: 'intent',
  defaultPendingComponent: () => <Loading what={texts.page} />,
  defaultErrorComponent: ({ error, reset }) => <Crash error={error} reset={reset} />,
  defaultNotFoundComponent: NotFound,
  scrollRestoration: true,
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}

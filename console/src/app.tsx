/** The root component. Shows the login without an account or while the user adds one, else the pages of the account. */
import { CSPProvider } from '@base-ui/react/csp-provider'
import { QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { lazy, Suspense } from 'react'
import { CurrentAccount, useAccounts } from './api/accounts.ts'
import { Boundary } from './components/boundary.tsx'
import { Loading } from './components/state.tsx'
import { Toasts } from './components/toasts.tsx'
import { router } from './router.tsx'
import { texts } from './texts.ts'

const Login = lazy(() => import('./pages/login.tsx'))

function Pages() {
  const { current, adding } = useAccounts()
  if (current === undefined || adding)
    return (
      <Suspense fallback={<Loading what={texts.login.title} />}>
        <Login />
      </Suspense>
    )
  return (
    // With another key, React creates all pages again, so no page shows the data of another account.
    <CurrentAccount key={current.id} value={current}>
      <QueryClientProvider client={current.cache}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </CurrentAccount>
  )
}

export function App() {
  return (
    // The content security policy blocks style elements.
    <CSPProvider disableStyleElements>
      <Boundary>
        <Pages />
      </Boundary>
      <Toasts />
    </CSPProvider>
  )
}

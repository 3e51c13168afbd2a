/**
 * The root component. Shows the login if there is no account, or while the user adds one. Otherwise shows the pages of
 * the current account.
 */
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
    // The key makes React create all pages again for another account, so no page shows the previous account's data.
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

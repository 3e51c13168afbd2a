/** The login page: with a token, or with the OpenID provider if the installation has one. */
import { type FormEvent, useEffect, useRef, useState } from 'react'
import { addAccount, stopAdding, useAccounts } from '../api/accounts.ts'
import { createApi, read } from '../api/client.ts'
import { ApiError } from '../api/errors.ts'
import { Button } from '../components/button.tsx'
import { Field } from '../components/field.tsx'
import { Logo } from '../components/icons.tsx'
import { PageTitle } from '../components/state.tsx'
import type { Provider } from '../lib/oidc.ts'
import { texts } from '../texts.ts'

/** Reads the OpenID provider from the API. Returns undefined if the installation has none. */
async function providerOfApi(signal: AbortSignal): Promise<Provider | undefined> {
  const response = await fetch('/managed/v1/login', { credentials: 'omit', signal })
  if (!response.ok) return undefined
  const { oidc } = (await response.json()) as { oidc?: Partial<Provider> }
  const { issuer, client_id: clientId, scope, audience } = oidc ?? {}
  if (typeof issuer !== 'string' || typeof clientId !== 'string') return undefined
  return { issuer, client_id: clientId, scope: scope ?? 'openid', ...(audience === undefined ? {} : { audience }) }
}

const longestToken = 16_384

function faultIn(token: string): string | undefined {
  if (token === '') return texts.login.empty
  return /\s/.test(token) || token.length > longestToken ? texts.login.notToken : undefined
}

/** Checks a token with a small request. Returns the error; undefined if the API accepts the token. */
async function refusalOf(token: string): Promise<string | undefined> {
  try {
    await read(createApi({ token: () => token, refused: () => {} }).GET('/managed/v1/regions'))
    return undefined
  } catch (error) {
    return error instanceof ApiError ? error.message : texts.errors.unreachable
  }
}

function TokenForm() {
  const [fault, setFault] = useState<string>()
  const [isChecking, setIsChecking] = useState(false)
  const input = useRef<HTMLInputElement>(null)
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    const token = input.current?.value.trim().replace(/^TOKEN\s+/, '') ?? ''
    const found = faultIn(token)
    if (found !== undefined) {
      setFault(found)
      input.current?.focus()
      return
    }
    setIsChecking(true)
    const refusal = await refusalOf(token)
    setIsChecking(false)
    setFault(refusal)
    if (refusal === undefined) addAccount(token)
    else input.current?.focus()
  }
  return (
    <form className="stack" onSubmit={submit} noValidate>
      <Field label={texts.login.token} hint={texts.login.tokenHint} error={fault}>
        {attributes => (
          <input
            {...attributes}
            ref={input}
            className="input mono"
            // Keeps the token out of the form history of the browser.
            type="password"
            autoComplete="off"
            spellCheck={false}
            maxLength={longestToken + 100}
          />
        )}
      </Field>
      <Button variant="primary" wide type="submit" busy={isChecking && texts.login.checking}>
        {texts.login.submit}
      </Button>
      <p className="field-hint">
        {texts.login.tokenOnOneMachine} <code>{texts.login.tokenCommand}</code>.
      </p>
    </form>
  )
}

function ProviderLogin({ provider }: { provider: Provider }) {
  const [fault, setFault] = useState<string>()
  const [waiting, setWaiting] = useState<AbortController>()
  useEffect(() => () => waiting?.abort(), [waiting])
  const start = async () => {
    // The click handler opens the window at once, because the browser blocks a window that is opened later.
    const popup = window.open('about:blank', '_blank', 'popup,width=520,height=720')
    if (popup === null) return setFault(texts.login.oidcBlocked)
    const stop = new AbortController()
    setFault(undefined)
    setWaiting(stop)
    try {
      const { logIn } = await import('../lib/oidc.ts')
      const { token, session } = await logIn(provider, popup, stop.signal)
      addAccount(token, session)
    } catch (error) {
      popup.close()
      if (!stop.signal.aborted)
        setFault(texts.login.oidcFailed(error instanceof Error ? error.message : texts.errors.unreachable))
      setWaiting(undefined)
    }
  }
  return (
    <div className="stack-small">
      {waiting === undefined ? (
        <Button wide variant="primary" onClick={start}>
          {texts.login.oidc}
        </Button>
      ) : (
        <div className="row-spread" role="status">
          {texts.login.oidcWaiting}
          <Button onClick={() => waiting.abort()}>{texts.login.cancel}</Button>
        </div>
      )}
      {fault !== undefined && (
        <p className="field-error" role="alert">
          {fault}
        </p>
      )}
      <p className="login-or">{texts.login.or}</p>
    </div>
  )
}

function useProvider(): Provider | undefined {
  const [provider, setProvider] = useState<Provider>()
  useEffect(() => {
    const stop = new AbortController()
    // If the request fails, the page offers only the login with a token.
    providerOfApi(stop.signal).then(setProvider, () => {})
    return () => stop.abort()
  }, [])
  return provider
}

/** The page of the login window after the provider's redirect. */
function SignedIn() {
  useEffect(() => {
    import('../lib/oidc.ts').then(({ returnFromProvider }) => returnFromProvider())
  }, [])
  return (
    <main className="login">
      <PageTitle>{texts.login.signedIn}</PageTitle>
    </main>
  )
}

const isReturn = () => location.pathname === '/console/signed-in' && /[?&]state=/.test(location.search)

export default function Login() {
  const { notice, adding } = useAccounts()
  const provider = useProvider()
  const [returned] = useState(isReturn)
  if (returned) return <SignedIn />
  return (
    <main className="login">
      <div className="login-card">
        <Logo />
        <PageTitle title={texts.login.submit}>{adding ? texts.login.add : texts.login.title}</PageTitle>
        {notice !== undefined && (
          <p className="notice tone-warning" role="status">
            {notice}
          </p>
        )}
        {provider !== undefined && <ProviderLogin provider={provider} />}
        <TokenForm />
        {adding && (
          <Button variant="plain" onClick={stopAdding}>
            {texts.login.back}
          </Button>
        )}
      </div>
    </main>
  )
}

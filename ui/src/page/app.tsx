import { useEffect } from 'preact/hooks'
import { LocationProvider, Route, Router, useLocation } from 'preact-iso/router'
import { connection, items } from './feed.js'
import { DevicePage } from './pages/device-page.js'
import { DevicesPage } from './pages/devices-page.js'
import { HandlersPage } from './pages/handlers-page.js'
import { MapPage } from './pages/map-page.js'
import { OverviewPage } from './pages/overview-page.js'
import { TryPage } from './pages/try-page.js'
import { ConnectionNotice, ConnectionState } from './parts/connection.js'
import { Mark } from './parts/icons.js'

const LINKS = [
  { href: '/', title: 'Overview' },
  { href: '/devices', title: 'Devices' },
  { href: '/map', title: 'Map' },
  { href: '/handlers', title: 'Handlers' },
  { href: '/try', title: 'Try' },
]

export function App() {
  return (
    <LocationProvider>
      <a class="skip" href="#content">
        Skip to the content
      </a>
      <Header />
      <ConnectionNotice />
      <main id="content" tabIndex={-1}>
        {connection.value === 'connecting' ? <p class="loading">Loading…</p> : <Pages />}
      </main>
    </LocationProvider>
  )
}

function Pages() {
  return (
    <Router onRouteChange={() => window.scrollTo(0, 0)}>
      <Route path="/" component={OverviewPage} />
      <Route path="/devices" component={DevicesPage} />
      <Route path="/devices/:namespace/:name" component={DevicePage} />
      <Route path="/map" component={MapPage} />
      <Route path="/handlers" component={HandlersPage} />
      <Route path="/try" component={TryPage} />
      <Route default component={NoPage} />
    </Router>
  )
}

function NoPage() {
  return (
    <div class="empty">
      <h1>There is no such page</h1>
      <p>
        <a href="/">Go to the overview</a>
      </p>
    </div>
  )
}

function Header() {
  const { path } = useLocation()
  const { title, trial } = items.value.about
  const page = LINKS.findLast(({ href }) => path === href || path.startsWith(`${href}/`))
  useEffect(() => {
    document.title = [page?.title, title, 'akri'].filter(Boolean).join(' · ')
  }, [page, title])
  return (
    <header class="top">
      <div class="top-inner">
        <a class="brand" href="/">
          <Mark />
          <span>akri</span>
          {title !== '' && <bdi class="node">{title}</bdi>}
        </a>
        <nav aria-label="Pages">
          {LINKS.filter(({ href }) => href !== '/try' || trial !== undefined).map((link) => (
            <a href={link.href} aria-current={link === page ? 'page' : undefined}>
              {link.title}
            </a>
          ))}
        </nav>
        <ConnectionState />
      </div>
    </header>
  )
}
